/*
 * The tree finds exactly the pages that were entered, in order, from the first
 * page of a file to the last one that an offset can name, and gives every node
 * back: nodes live in the memory that cached pages need.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

#include "engine/cache.h"
#include "engine/cleanup.h"
#include "engine/index.h"

enum { LIMIT_PAGES = 2000, PLACES_MAX = 3000 };

/* The last page of the largest file: offsets have 63 bits. */
#define LAST_PAGE ((1ULL << 51) - 1)

static struct stats_block stats;

static enum cache_verdict keep(struct page *page)
{
	return CACHE_KEPT;
}

static void forget(struct page *page)
{
}

struct fixture {
	struct cache cache;
	struct index index;
};

static int set_up(void **state)
{
	static struct fixture fixture;
	size_t bytes = LIMIT_PAGES * CACHE_PAGE_COST;

	fixture.index = (struct index){0};
	assert_int_equal(
		cache_open(&fixture.cache, bytes, bytes, keep, forget, &stats),
		0);
	*state = &fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(fixture->index.count, 0);
	assert_int_equal(fixture->index.root, INDEX_NONE);
	assert_int_equal(fixture->cache.node_pages, 0);
	assert_int_equal(fixture->cache.page_used, 0);
	assert_true(cache_check(&fixture->cache));
	cache_close(&fixture->cache);
	return 0;
}

static uint32_t find(struct fixture *fixture, uint64_t page)
{
	struct index_cursor cursor = {0};

	return index_find(&fixture->index, &fixture->cache, page, &cursor);
}

/* What the tree should hold: sorted places and their numbers. */
struct model {
	uint64_t places[PLACES_MAX];
	uint32_t numbers[PLACES_MAX];
	size_t count;
};

/* The first place at or after @from. */
static size_t model_at(const struct model *model, uint64_t from)
{
	size_t low = 0;
	size_t high = model->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (model->places[middle] < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool model_has(const struct model *model, uint64_t place)
{
	size_t at = model_at(model, place);

	return at < model->count && model->places[at] == place;
}

static void model_insert(struct model *model, uint64_t place, uint32_t number)
{
	size_t at = model_at(model, place);

	for (size_t i = model->count++; i > at; i--) {
		model->places[i] = model->places[i - 1];
		model->numbers[i] = model->numbers[i - 1];
	}
	model->places[at] = place;
	model->numbers[at] = number;
}

static void model_remove(struct model *model, uint64_t place)
{
	model->count--;
	for (size_t i = model_at(model, place); i < model->count; i++) {
		model->places[i] = model->places[i + 1];
		model->numbers[i] = model->numbers[i + 1];
	}
}

static void expect_same(struct fixture *fixture, const struct model *model)
{
	struct index_cursor cursor = {0};
	uint64_t from = 0;

	assert_int_equal(fixture->index.count, model->count);
	for (size_t i = 0; i < model->count; i++) {
		uint64_t at;

		assert_int_equal(
			index_next(&fixture->index, &fixture->cache, from, &at),
			model->numbers[i]);
		assert_int_equal(at, model->places[i]);
		assert_int_equal(index_find(&fixture->index, &fixture->cache,
		                            at, &cursor),
		                 model->numbers[i]);
		from = at + 1;
	}
	assert_int_equal(
		index_next(&fixture->index, &fixture->cache, from, &from),
		UINT32_MAX);
}

static void expect_next(struct fixture *fixture, const struct model *model,
                        uint64_t from)
{
	size_t i = model_at(model, from);
	uint64_t at = UINT64_MAX;
	uint32_t number =
		index_next(&fixture->index, &fixture->cache, from, &at);

	if (i == model->count) {
		assert_int_equal(number, UINT32_MAX);
		return;
	}
	assert_int_equal(number, model->numbers[i]);
	assert_int_equal(at, model->places[i]);
}

static uint64_t seed;

static uint64_t random_place(uint64_t range)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 13) % range;
}

static void random_steps(struct fixture *fixture, struct model *model,
                         uint64_t base, uint64_t range)
{
	for (unsigned step = 0; step < 20000; step++) {
		uint64_t place = base + random_place(range);
		/* Grow first, shrink later. */
		bool wants_insert = random_place(100) <
		                    (step < 10000 ? 70 : 30);

		if (model_has(model, place)) {
			assert_int_not_equal(find(fixture, place), UINT32_MAX);
			if (wants_insert)
				continue;
			index_remove(&fixture->index, &fixture->cache, place);
			model_remove(model, place);
		} else if (wants_insert && model->count < PLACES_MAX) {
			uint32_t number = (uint32_t)random_place(1 << 30);

			assert_int_equal(index_insert(&fixture->index,
			                              &fixture->cache, place,
			                              number),
			                 0);
			model_insert(model, place, number);
		} else {
			assert_int_equal(find(fixture, place), UINT32_MAX);
		}
		expect_next(fixture, model, base + random_place(range));
	}
}

static void the_tree_is_a_sorted_array(void **state)
{
	static const struct {
		uint64_t base;
		uint64_t range;
	} rows[] = {
		{0, 1},
		{0, 2},
		{0, 64},
		{0, 65},
		{0, 5000},
		{63, 2},
		{4095, 2},
		{0, 1 << 20},
		{1 << 18, 4096},
		{LAST_PAGE - 3000, 3001},
		{LAST_PAGE - 70, 71},
	};
	struct fixture *fixture = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		static struct model model;

		model.count = 0;
		random_steps(fixture, &model, rows[i].base, rows[i].range);
		expect_same(fixture, &model);
		while (model.count > 0) {
			uint64_t place =
				model.places[random_place(model.count)];

			index_remove(&fixture->index, &fixture->cache, place);
			model_remove(&model, place);
		}
		assert_int_equal(fixture->cache.node_pages, 0);
		assert_int_equal(fixture->index.height, 0);
	}
}

static void the_first_page_needs_no_node(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(index_insert(&fixture->index, &fixture->cache, 0, 42),
	                 0);
	assert_int_equal(fixture->index.height, 0);
	assert_int_equal(fixture->cache.node_pages, 0);
	assert_int_equal(find(fixture, 0), 42);
	assert_int_equal(find(fixture, 1), UINT32_MAX);
	assert_int_equal(find(fixture, UINT64_MAX >> 12), UINT32_MAX);
	index_remove(&fixture->index, &fixture->cache, 0);
}

static void a_tree_is_as_high_as_its_last_page(void **state)
{
	static const struct {
		uint64_t place;
		uint32_t height;
	} rows[] = {
		{0, 0},       {1, 1},         {63, 1},
		{64, 2},      {4095, 2},      {4096, 3},
		{1 << 18, 4}, {LAST_PAGE, 9}, {(1ULL << 52) - 1, 9},
	};
	struct fixture *fixture = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(index_insert(&fixture->index, &fixture->cache,
		                              rows[i].place, 5),
		                 0);
		assert_int_equal(fixture->index.height, rows[i].height);
		assert_int_equal(find(fixture, rows[i].place), 5);
		index_remove(&fixture->index, &fixture->cache, rows[i].place);
	}
}

/* The first page stays when the tree grows above it. */
static void a_tree_grows_above_what_it_holds(void **state)
{
	struct fixture *fixture = *state;
	uint64_t places[] = {0, 1, 64, 4096, 1 << 20, 1ULL << 40, LAST_PAGE};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		assert_int_equal(index_insert(&fixture->index, &fixture->cache,
		                              places[i], (uint32_t)i),
		                 0);
		for (size_t k = 0; k <= i; k++)
			assert_int_equal(find(fixture, places[k]), k);
	}
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		index_remove(&fixture->index, &fixture->cache, places[i]);
}

/* Without memory for nodes nothing is entered, and nothing is lost. */
static void without_memory_the_tree_is_unchanged(void **state)
{
	struct fixture *fixture = *state;
	struct page *taken[LIMIT_PAGES];
	size_t count = 0;

	assert_int_equal(index_insert(&fixture->index, &fixture->cache, 0, 1),
	                 0);
	while (cache_take(&fixture->cache, &taken[count], 1, false))
		count++;
	/* Use up what is reserved for nodes. */
	uint64_t place = LAST_PAGE;
	unsigned entered = 0;

	while (index_insert(&fixture->index, &fixture->cache, place, 7) == 0) {
		place -= 1ULL << 30;
		entered++;
	}
	assert_in_range(entered, 10, LIMIT_PAGES);
	assert_int_equal(fixture->index.count, entered + 1);
	assert_int_equal(find(fixture, place), UINT32_MAX);
	assert_int_equal(find(fixture, 0), 1);
	assert_int_equal(find(fixture, LAST_PAGE), 7);
	for (; entered > 0; entered--) {
		place += 1ULL << 30;
		assert_int_equal(find(fixture, place), 7);
		index_remove(&fixture->index, &fixture->cache, place);
	}
	index_remove(&fixture->index, &fixture->cache, 0);
	while (count > 0)
		cache_unpin(&fixture->cache, taken[--count]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(the_tree_is_a_sorted_array),
		TEST(the_first_page_needs_no_node),
		TEST(a_tree_is_as_high_as_its_last_page),
		TEST(a_tree_grows_above_what_it_holds),
		TEST(without_memory_the_tree_is_unchanged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
