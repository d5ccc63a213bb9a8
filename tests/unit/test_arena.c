/*
 * Every free page is handed out once, pages with memory before those without,
 * in the order in which they came back, so that neighbours of a scan stay
 * neighbours; and memory that was released is really the system's again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/arena.h"

enum { PAGES = 300 };

static int set_up(void **state)
{
	static struct arena arena;

	assert_int_equal(arena_open(&arena, PAGES), 0);
	*state = &arena;
	return 0;
}

static int tear_down(void **state)
{
	arena_close(*state);
	return 0;
}

static struct page *take(struct arena *arena)
{
	struct page *page = arena_take(arena);

	page->state = PAGE_READING;
	return page;
}

static void give(struct arena *arena, struct page *page)
{
	page->state = PAGE_FREE;
	arena_give(arena, page);
}

static void each_page_is_handed_out_once(void **state)
{
	struct arena *arena = *state;
	bool is_taken[PAGES] = {false};

	for (unsigned i = 0; i < PAGES; i++) {
		uint32_t number = arena_number(arena, take(arena));

		assert_true(number < PAGES);
		assert_false(is_taken[number]);
		is_taken[number] = true;
		memset(arena_memory(arena, number), (int)number, PAGE_BYTES);
	}
	for (unsigned i = 0; i < PAGES; i++) {
		const unsigned char *memory = arena_memory(arena, i);

		assert_int_equal(memory[0], (unsigned char)i);
		assert_int_equal(memory[PAGE_BYTES - 1], (unsigned char)i);
	}
}

static void pages_come_again_in_the_order_they_went(void **state)
{
	struct arena *arena = *state;
	struct page *pages[PAGES];

	for (unsigned i = 0; i < PAGES; i++)
		pages[i] = take(arena);
	/* The queue wraps around several times. */
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < 170; i++)
			give(arena, pages[(i * 7) % PAGES]);
		for (unsigned i = 0; i < 170; i++)
			assert_ptr_equal(take(arena), pages[(i * 7) % PAGES]);
	}
}

static bool is_resident(struct arena *arena, uint32_t number)
{
	unsigned char vector;

	assert_int_equal(
		mincore(arena_memory(arena, number), PAGE_BYTES, &vector), 0);
	return vector & 1;
}

static void released_memory_is_gone_and_used_last(void **state)
{
	struct arena *arena = *state;
	struct page *pages[10];

	/* One huge page would be resident as a whole. */
	(void)madvise(arena->memory, (size_t)PAGES * PAGE_BYTES,
	              MADV_NOHUGEPAGE);
	for (unsigned i = 0; i < 10; i++) {
		pages[i] = take(arena);
		memset(arena_memory(arena, arena_number(arena, pages[i])), 7,
		       PAGE_BYTES);
	}
	for (unsigned i = 0; i < 10; i++)
		give(arena, pages[i]);
	assert_int_equal(arena_warm_count(arena), 10);
	arena_release(arena, 4);
	assert_int_equal(arena_warm_count(arena), 6);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(
			is_resident(arena, arena_number(arena, pages[i])),
			i >= 4);
	for (unsigned i = 0; i < 10; i++)
		assert_ptr_equal(take(arena), pages[(i + 4) % 10]);
	/* What comes back from the system is zero. */
	const char *memory = arena_memory(arena, arena_number(arena, pages[0]));

	assert_int_equal(memory[0], 0);
}

static void releasing_more_than_there_is_releases_all(void **state)
{
	struct arena *arena = *state;

	give(arena, take(arena));
	arena_release(arena, 1000);
	assert_int_equal(arena_warm_count(arena), 0);
	assert_int_equal(arena->cold.count, 1);
	arena_release(arena, 1000);
	assert_int_equal(arena_number(arena, take(arena)), 0);
	assert_int_equal(arena_number(arena, take(arena)), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(each_page_is_handed_out_once),
		TEST(pages_come_again_in_the_order_they_went),
		TEST(released_memory_is_gone_and_used_last),
		TEST(releasing_more_than_there_is_releases_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
