/*
 * One scan must not flush what is used often: new pages leave first unless they
 * were used again, pages that come back soon after they left are kept, and
 * whatever is inserted, removed, chosen and returned, the queues agree with
 * what is resident.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cleanup.h"
#include "engine/policy.h"

enum { CAPACITY = 1000, BUCKETS = 256 };

/* A cache of @limit pages on top of the policy, by key. */
struct model {
	struct policy policy;
	struct policy_entry entries[CAPACITY];
	struct policy_ghost ghosts[BUCKETS];
	uint64_t keys[CAPACITY];   /* 0: free */
	uint32_t numbers[1 << 17]; /* of a key, plus one */
	size_t limit;
	size_t resident;
};

static int set_up(void **state)
{
	struct model *model = calloc(1, sizeof(*model));

	assert_non_null(model);
	model->limit = CAPACITY;
	policy_init(&model->policy, model->entries, CAPACITY, model->ghosts,
	            BUCKETS);
	*state = model;
	return 0;
}

static int tear_down(void **state)
{
	struct model *model = *state;

	assert_true(policy_check(&model->policy));
	assert_int_equal(model->policy.small.count + model->policy.main.count,
	                 model->resident);
	free(model);
	return 0;
}

static uint32_t model_evict(struct model *model)
{
	uint32_t page = policy_victim(&model->policy);

	assert_true(page < CAPACITY);
	assert_true(model->keys[page] != 0);
	policy_evicted(&model->policy, page, true);
	model->numbers[model->keys[page]] = 0;
	model->keys[page] = 0;
	model->resident--;
	return page;
}

/* A use of @key.  True: it was resident. */
static bool model_use(struct model *model, uint64_t key)
{
	uint32_t page;

	if (model->numbers[key]) {
		policy_touch(&model->policy, model->numbers[key] - 1);
		return true;
	}
	if (model->resident == model->limit)
		page = model_evict(model);
	else
		for (page = 0; model->keys[page]; page++)
			;
	model->keys[page] = key;
	model->numbers[key] = page + 1;
	model->resident++;
	policy_insert(&model->policy, page, key);
	return false;
}

static bool model_has(const struct model *model, uint64_t key)
{
	return model->numbers[key] != 0;
}

static void an_empty_policy_has_no_victim(void **state)
{
	struct model *model = *state;

	assert_int_equal(policy_victim(&model->policy), POLICY_NONE);
	model_use(model, 1);
	model_evict(model);
	assert_int_equal(policy_victim(&model->policy), POLICY_NONE);
}

static void a_scan_does_not_flush_what_is_used(void **state)
{
	struct model *model = *state;
	const unsigned hot = 500;

	for (unsigned round = 0; round < 4; round++) {
		for (uint64_t key = 1; key <= hot; key++)
			model_use(model, key);
	}
	for (uint64_t key = 10000; key < 110000; key++)
		model_use(model, key);
	unsigned kept = 0;

	for (uint64_t key = 1; key <= hot; key++)
		kept += model_has(model, key);
	assert_int_equal(kept, hot);
}

static void promotion_takes_two_uses(void **state)
{
	static const struct {
		unsigned uses;
		bool stays;
	} rows[] = {{0, false}, {1, false}, {2, true}, {5, true}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct model *model;

		set_up((void **)&model);
		model_use(model, 1);
		for (unsigned k = 0; k < rows[i].uses; k++)
			model_use(model, 1);
		for (uint64_t key = 10; key < 10 + CAPACITY; key++)
			model_use(model, key);
		assert_int_equal(model_has(model, 1), rows[i].stays);
		tear_down((void **)&model);
	}
}

static void what_comes_back_soon_is_kept(void **state)
{
	struct model *model = *state;

	for (uint64_t key = 1; key <= CAPACITY + 100; key++)
		model_use(model, key);
	assert_false(model_has(model, 50));
	model_use(model, 50); /* a ghost: straight to main */
	uint32_t page = model->numbers[50] - 1;

	assert_int_equal(model->entries[page].queue, POLICY_MAIN);
	for (uint64_t key = 2000; key < 2000 + 10 * CAPACITY; key++)
		model_use(model, key);
	assert_true(model_has(model, 50));
}

static void what_comes_back_late_is_new(void **state)
{
	struct model *model = *state;

	for (uint64_t key = 1; key < 20 * CAPACITY; key++)
		model_use(model, key);
	model_use(model, 50);
	assert_int_equal(model->entries[model->numbers[50] - 1].queue,
	                 POLICY_SMALL);
}

static void what_was_never_used_leaves_no_ghost(void **state)
{
	struct model *model = *state;

	policy_insert(&model->policy, 0, 77);
	policy_insert(&model->policy, 1, 78);
	assert_int_equal(policy_victim(&model->policy), 0);
	policy_evicted(&model->policy, 0, false);
	policy_insert(&model->policy, 0, 77);
	assert_int_equal(model->entries[0].queue, POLICY_SMALL);
	policy_remove(&model->policy, 0);
	policy_remove(&model->policy, 1);
}

static void a_victim_that_cannot_leave_is_in_use(void **state)
{
	struct model *model = *state;

	for (uint64_t key = 1; key <= 10; key++)
		model_use(model, key);
	uint32_t page = policy_victim(&model->policy);

	policy_return(&model->policy, page);
	assert_int_equal(model->entries[page].queue, POLICY_MAIN);
	/* The others go first. */
	for (unsigned i = 0; i < 8; i++)
		assert_int_not_equal(model_evict(model), page);
}

static void removing_what_is_out_does_nothing(void **state)
{
	struct model *model = *state;

	policy_remove(&model->policy, 5);
	model_use(model, 1);
	uint32_t page = policy_victim(&model->policy);

	policy_remove(&model->policy, page);
	policy_return(&model->policy, page);
	assert_int_equal(model->policy.main.count, 1);
}

static void model_remove(struct model *model, uint32_t page)
{
	policy_remove(&model->policy, page);
	model->numbers[model->keys[page]] = 0;
	model->keys[page] = 0;
	model->resident--;
}

static void queues_agree_after_anything(void **state)
{
	struct model *model = *state;

	model->limit = CAPACITY / 2;
	srand(1);
	for (unsigned i = 0; i < 100000; i++) {
		uint32_t page = (uint32_t)rand() % CAPACITY;

		switch (rand() % 6) {
		case 0:
			if (model->keys[page])
				model_remove(model, page);
			break;
		case 1:
			if (model->resident > 0)
				model_evict(model);
			break;
		case 2:
			page = policy_victim(&model->policy);
			if (page != POLICY_NONE)
				policy_return(&model->policy, page);
			break;
		default:
			model_use(model, 1 + (uint64_t)(rand() % 2000));
		}
		if (i % 1000 == 0)
			assert_true(policy_check(&model->policy));
		assert_int_equal(model->policy.small.count +
		                         model->policy.main.count,
		                 model->resident);
	}
}

static void the_check_finds_broken_queues(void **state)
{
	struct model *model = *state;

	for (uint64_t key = 1; key <= 10; key++)
		model_use(model, key);
	model->policy.small.count++;
	assert_false(policy_check(&model->policy));
	model->policy.small.count--;

	uint32_t *link = &model->entries[model->policy.small.newest].older;
	uint32_t right = *link;

	*link = POLICY_NONE;
	assert_false(policy_check(&model->policy));
	*link = right;
	assert_true(policy_check(&model->policy));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(an_empty_policy_has_no_victim),
		TEST(a_scan_does_not_flush_what_is_used),
		cmocka_unit_test(promotion_takes_two_uses),
		TEST(what_comes_back_soon_is_kept),
		TEST(what_comes_back_late_is_new),
		cmocka_unit_test_setup_teardown(
			what_was_never_used_leaves_no_ghost, set_up, tear_down),
		TEST(a_victim_that_cannot_leave_is_in_use),
		TEST(removing_what_is_out_does_nothing),
		TEST(queues_agree_after_anything),
		TEST(the_check_finds_broken_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
