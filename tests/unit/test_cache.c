/*
 * The limit holds at every moment, whoever takes, pins, evicts or resizes; a
 * reader gets all the pages that it asks for or none, and a page that somebody
 * has pinned never leaves under him.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache.h"
#include "engine/cleanup.h"
#include "engine/index.h"

enum { LIMIT = 128, MAX = 400, FILE_ID = 1 };

/* In the place of a file: the lock that orders its pages. */
static struct fixture {
	struct cache cache;
	struct stats_block stats;
	struct lock file_lock;
	unsigned forgotten;
	unsigned evicted;
	bool counts_as_unread;
} fixture;

/* Pages point to something that stands for a file. */
static struct file *const some_file = (struct file *)&fixture;

static enum cache_verdict evict(struct page *page)
{
	lock_acquire(&fixture.file_lock);
	if (!page->is_indexed) {
		lock_release(&fixture.file_lock);
		return CACHE_KEPT;
	}
	if (atomic_load(&page->references) > 2) {
		cache_return(&fixture.cache, page);
		lock_release(&fixture.file_lock);
		return CACHE_KEPT;
	}
	cache_withdraw(&fixture.cache, page);
	page->is_indexed = false;
	fixture.evicted++;
	lock_release(&fixture.file_lock);
	(void)cache_unpin(&fixture.cache, page);
	return fixture.counts_as_unread ? CACHE_EVICTED_UNREAD : CACHE_EVICTED;
}

static void forget(struct page *page)
{
	assert_ptr_equal(page->file, some_file);
	scoped_lock(&fixture.file_lock);
	fixture.forgotten++;
}

static size_t bytes_of(size_t pages)
{
	return pages * CACHE_PAGE_COST;
}

static int set_up(void **state)
{
	fixture = (struct fixture){.evicted = 0};
	lock_init(&fixture.file_lock);
	assert_int_equal(cache_open(&fixture.cache, bytes_of(LIMIT),
	                            bytes_of(MAX), evict, forget,
	                            &fixture.stats),
	                 0);
	return 0;
}

/* Whatever a test left in the cache is unpinned and can go. */
static int tear_down(void **state)
{
	cache_resize(&fixture.cache, 0);
	assert_int_equal(cache_bytes(&fixture.cache), 0);
	assert_true(cache_check(&fixture.cache));
	cache_close(&fixture.cache);
	lock_done(&fixture.file_lock);
	return 0;
}

static size_t used(void)
{
	size_t bytes = cache_bytes(&fixture.cache);

	assert_true(bytes <= bytes_of(cache_limit_pages(&fixture.cache)));
	return bytes / CACHE_PAGE_COST;
}

/* The page becomes valid and indexed; the taker's reference is the index's. */
static void publish(struct page *page, uint64_t page_index)
{
	lock_acquire(&fixture.file_lock);
	page->file = some_file;
	page->index = page_index;
	page->is_indexed = true;
	page->state = PAGE_VALID;
	cache_publish(&fixture.cache, &page, 1, FILE_ID);
	lock_release(&fixture.file_lock);
}

static bool take(struct page **pages, size_t count)
{
	return cache_take(&fixture.cache, pages, count, false);
}

/* Pages of which some must stay for index nodes. */
static size_t fill_up(struct page **pages)
{
	size_t count = 0;

	while (take(&pages[count], 1))
		count++;
	return count;
}

static void all_or_nothing(void **state)
{
	struct page *pages[LIMIT];
	size_t count = fill_up(pages);

	/* The rest is reserved for nodes. */
	assert_in_range(count, LIMIT * 3 / 4, LIMIT - 1);
	assert_int_equal(used(), count);
	for (unsigned i = 0; i < 10; i++)
		cache_unpin(&fixture.cache, pages[--count]);
	struct page *more[11];

	assert_false(take(more, 11));
	assert_int_equal(used(), count);
	assert_true(take(more, 10));
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(atomic_load(&more[i]->references), 1);
		assert_int_equal(more[i]->state, PAGE_READING);
		cache_unpin(&fixture.cache, more[i]);
	}
	while (count > 0)
		cache_unpin(&fixture.cache, pages[--count]);
	assert_int_equal(used(), 0);
}

static void room_is_made_by_evicting(void **state)
{
	for (unsigned i = 0; i < 10 * LIMIT; i++) {
		struct page *page;

		assert_true(take(&page, 1));
		publish(page, i);
		used();
		assert_true(cache_check(&fixture.cache));
	}
	assert_true(fixture.evicted >= 9 * LIMIT);
	/* Each that left had a file to be let go of. */
	assert_int_equal(fixture.forgotten, fixture.evicted);
	assert_int_equal(atomic_load(&fixture.stats.values[STAT_evictions]),
	                 fixture.evicted);
	assert_int_equal(
		atomic_load(&fixture.stats.values[STAT_readahead_wasted]), 0);

	struct page *many[LIMIT / 2];

	assert_true(take(many, LIMIT / 2));
	for (unsigned i = 0; i < LIMIT / 2; i++)
		cache_unpin(&fixture.cache, many[i]);
}

static void readahead_in_vain_is_counted(void **state)
{
	fixture.counts_as_unread = true;
	for (unsigned i = 0; i < 2 * LIMIT; i++) {
		struct page *page;

		assert_true(take(&page, 1));
		publish(page, i);
	}
	assert_int_equal(
		atomic_load(&fixture.stats.values[STAT_readahead_wasted]),
		fixture.evicted);
}

static void pinned_pages_are_never_evicted(void **state)
{
	struct page *pages[LIMIT];
	struct page *page;
	size_t count = fill_up(pages);

	for (size_t i = 0; i < count; i++) {
		memset(cache_memory(&fixture.cache, pages[i]), (int)i,
		       PAGE_BYTES);
		publish(pages[i], i);
		if (i % 2)
			cache_pin(pages[i]);
	}
	for (unsigned i = 0; i < 5 * LIMIT; i++) {
		assert_true(take(&page, 1));
		memset(cache_memory(&fixture.cache, page), 0xff, PAGE_BYTES);
		publish(page, LIMIT + i);
	}
	for (size_t i = 1; i < count; i += 2) {
		const char *memory = cache_memory(&fixture.cache, pages[i]);

		assert_true(pages[i]->is_indexed);
		assert_int_equal(memory[0], (char)i);
	}
	/* More than the unpinned ones cannot be had, and asking ends. */
	struct page *many[LIMIT];

	assert_false(take(many, LIMIT * 3 / 4));
	for (size_t i = 1; i < count; i += 2)
		cache_unpin(&fixture.cache, pages[i]);
	assert_true(take(many, LIMIT * 3 / 4));
	for (size_t i = 0; i < LIMIT * 3 / 4; i++)
		cache_unpin(&fixture.cache, many[i]);
}

static void who_waits_in_vain_is_remembered(void **state)
{
	struct page *pages[LIMIT];
	struct page *more;
	size_t count = fill_up(pages);

	assert_false(cache_take(&fixture.cache, &more, 1, false));
	assert_false(atomic_load(&fixture.cache.is_hungry));
	assert_false(cache_take(&fixture.cache, &more, 1, true));
	assert_true(atomic_load(&fixture.cache.is_hungry));
	while (count > 0)
		assert_true(cache_unpin(&fixture.cache, pages[--count]));
}

static void only_the_last_reference_frees(void **state)
{
	struct page *page;

	assert_true(take(&page, 1));
	cache_pin(page);
	cache_pin(page);
	assert_false(cache_unpin(&fixture.cache, page));
	assert_false(cache_unpin(&fixture.cache, page));
	assert_int_equal(used(), 1);
	assert_true(cache_unpin(&fixture.cache, page));
	assert_int_equal(used(), 0);
}

static void the_limit_moves_down_and_up(void **state)
{
	static const size_t limits[] = {100, 64, 16, 128, 400, 9, 300, 1000};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		size_t limit = limits[i] < MAX ? limits[i] : MAX;

		cache_resize(&fixture.cache, bytes_of(limits[i]));
		assert_int_equal(cache_limit_pages(&fixture.cache), limit);
		assert_true(used() <= limit);
		/* Free memory does not count as free, it is gone. */
		assert_true(fixture.cache.page_used +
		                    arena_warm_count(&fixture.cache.arena) <=
		            limit);
		for (unsigned k = 0; k < 2 * limit; k++) {
			struct page *page;

			assert_true(take(&page, 1));
			publish(page, i * MAX * 2 + k);
		}
		assert_true(used() >= limit * 3 / 4);
		assert_true(cache_check(&fixture.cache));
	}
}

static void pinned_pages_leave_a_smaller_cache_later(void **state)
{
	struct page *pages[LIMIT];
	size_t count = fill_up(pages);

	cache_resize(&fixture.cache, bytes_of(16));
	assert_int_equal(cache_bytes(&fixture.cache), bytes_of(count));
	while (count > 0)
		cache_unpin(&fixture.cache, pages[--count]);
	assert_int_equal(cache_bytes(&fixture.cache), 0);
	assert_true(arena_warm_count(&fixture.cache.arena) <= 16);
	assert_true(cache_check(&fixture.cache));
}

/* Pages for data cannot use up what the index needs to hold them. */
static void nodes_have_a_reserve(void **state)
{
	struct page *pages[LIMIT];
	struct index_node *nodes[LIMIT * 15];
	size_t count = fill_up(pages);
	size_t node_count = 0;

	while ((nodes[node_count] = cache_node_take(&fixture.cache))) {
		struct index_node *node = nodes[node_count];

		assert_int_equal(node->used, 0);
		for (unsigned i = 0; i < INDEX_FANOUT; i++)
			assert_int_equal(node->slots[i], INDEX_NONE);
		memset(node->slots, 0xff, sizeof(node->slots));
		assert_ptr_equal(cache_node(&fixture.cache, node->number),
		                 node);
		node_count++;
	}
	assert_true(node_count >= 15 * 8);
	assert_int_equal(used(), LIMIT);
	assert_int_equal(cache_data_pages(&fixture.cache), count);
	/* In an order unlike that of taking. */
	for (size_t i = 0; i < node_count; i++)
		cache_node_give(&fixture.cache, nodes[i * 7 % node_count]);
	assert_int_equal(used(), count);
	assert_int_equal(fixture.cache.node_partial, 0);
	while (count > 0)
		cache_unpin(&fixture.cache, pages[--count]);
}

static void nodes_are_told_apart(void **state)
{
	struct index_node *nodes[100];

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 100; i++) {
			nodes[i] = cache_node_take(&fixture.cache);
			nodes[i]->slots[0] = i;
		}
		assert_int_equal(fixture.cache.node_pages, 7);
		for (unsigned i = 0; i < 100; i++)
			assert_int_equal(nodes[i]->slots[0], i);
		for (unsigned i = 0; i < 100; i++)
			cache_node_give(&fixture.cache,
			                nodes[(i * 37 + round) % 100]);
		assert_int_equal(used(), 0);
	}
}

static void *churn(void *argument)
{
	unsigned seed = (unsigned)(uintptr_t)argument;

	for (unsigned i = 0; i < 3000; i++) {
		struct page *pages[8];
		size_t count = 1 + (unsigned)rand_r(&seed) % 8;

		if (!take(pages, count))
			continue;
		if (cache_bytes(&fixture.cache) > bytes_of(LIMIT))
			return (void *)1;
		for (size_t k = 0; k < count; k++) {
			if (rand_r(&seed) % 4)
				publish(pages[k], (uint64_t)rand_r(&seed));
			else
				cache_unpin(&fixture.cache, pages[k]);
		}
	}
	return NULL;
}

static void the_limit_holds_among_threads(void **state)
{
	pthread_t threads[8];

	for (uintptr_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_create(&threads[i], NULL, churn, (void *)i);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		void *failure;

		pthread_join(threads[i], &failure);
		assert_null(failure);
	}
	assert_true(cache_check(&fixture.cache));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(all_or_nothing),
		TEST(room_is_made_by_evicting),
		TEST(readahead_in_vain_is_counted),
		TEST(pinned_pages_are_never_evicted),
		TEST(who_waits_in_vain_is_remembered),
		TEST(only_the_last_reference_frees),
		TEST(the_limit_moves_down_and_up),
		TEST(pinned_pages_leave_a_smaller_cache_later),
		TEST(nodes_have_a_reserve),
		TEST(nodes_are_told_apart),
		TEST(the_limit_holds_among_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
