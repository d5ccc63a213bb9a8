/*
 * Pages that travel together are neighbours in one file, as many as the limit
 * allows and never more: a reader may have a cached page between two missing
 * ones pinned, so no gap is bridged; and a page that failed in company travels
 * alone, or it would cost its neighbours again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "engine/cleanup.h"
#include "engine/combine.h"

enum { ROW_PAGES = 6 };

/* Two files, in this order. */
static const char files[2];

/* As the engine keeps them: the claim is the head of something larger. */
struct large_claim {
	struct combine_claim combine;
	char more[24];
};

struct row {
	struct combine_claim claims[ROW_PAGES];
	size_t count;
	size_t limit;
	size_t expected;
};

#define A(index)                        \
	{                               \
		&files[0], index, false \
	}
#define B(index)                        \
	{                               \
		&files[1], index, false \
	}
#define S(index)                       \
	{                              \
		&files[0], index, true \
	}

static void a_run_is_as_long_as_possible(void **state)
{
	static const struct row rows[] = {
		{{A(7)}, 1, 32, 1},
		{{A(7)}, 1, 1, 1},
		{{A(7), A(8), A(9)}, 3, 32, 3},
		{{A(7), A(8), A(9)}, 3, 3, 3},
		{{A(7), A(8), A(9)}, 3, 2, 2}, /* the limit splits */
		{{A(7), A(8), A(9)}, 3, 1, 1},
		{{A(7), A(8), A(9)}, 2, 32, 2}, /* only count are there */
		{{A(7), A(9)}, 2, 32, 1},       /* a gap splits */
		{{A(7), A(8), A(10)}, 3, 32, 2},
		{{A(7), B(8)}, 2, 32, 1}, /* another file splits */
		{{A(7), A(8), B(9)}, 3, 32, 2},
		{{S(7), A(8)}, 2, 32, 1}, /* solo goes alone ... */
		{{A(7), S(8), A(9)}, 3, 32, 1},
		{{A(7), A(8), S(9)}, 3, 32, 2},
		{{S(7), S(8)}, 2, 32, 1}, /* ... also among its like */
		{{A(0), A(1)}, 2, 32, 2},
		{{A(UINT64_MAX - 1), A(UINT64_MAX)}, 2, 32, 2},
		{{A(0), A(UINT64_MAX)}, 2, 32, 1},
		/* Detached by a write and claimed again: twice the same. */
		{{A(7), A(7), A(8)}, 3, 32, 1},
		{{A(6), A(7), A(7)}, 3, 32, 2},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct large_claim large[ROW_PAGES] = {0};

		for (size_t k = 0; k < ROW_PAGES; k++)
			large[k].combine = rows[i].claims[k];
		assert_int_equal(combine_run(&large->combine, rows[i].count,
		                             sizeof(large[0]), rows[i].limit),
		                 rows[i].expected);
		assert_int_equal(combine_run(rows[i].claims, rows[i].count,
		                             sizeof(rows[i].claims[0]),
		                             rows[i].limit),
		                 rows[i].expected);
	}
}

static int compare(const void *a, const void *b)
{
	return combine_compare(a, b);
}

static void order_is_by_file_then_index(void **state)
{
	struct combine_claim claims[] = {
		B(0), A(UINT64_MAX), A(3), B(UINT64_MAX), A(0), B(3),
	};

	qsort(claims, ARRAY_SIZE(claims), sizeof(claims[0]), compare);
	for (size_t i = 0; i + 1 < ARRAY_SIZE(claims); i++) {
		assert_true(compare(&claims[i], &claims[i + 1]) < 0);
		assert_true(compare(&claims[i + 1], &claims[i]) > 0);
		assert_int_equal(compare(&claims[i], &claims[i]), 0);
	}
	for (size_t i = 1; i < 3; i++) {
		assert_ptr_equal(claims[i].file, claims[0].file);
		assert_ptr_equal(claims[i + 3].file, claims[3].file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_is_as_long_as_possible),
		cmocka_unit_test(order_is_by_file_then_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
