/*
 * The same bytes in another place have another sum, so that a misplaced page is
 * found; and what is not known for certain is unknown: a forgotten, replaced or
 * renamed sum must never accuse a page.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Not the dispatching variant: what any other program would compute. */
#include <xxhash.h>

#include "engine/checksum.h"
#include "engine/cleanup.h"
#include "engine/page.h"

/* Groups that a place of the table holds. */
enum { WAYS = 8 };

enum { BUDGET = 1 << 20, FILE_A = 11, FILE_B = 12 };

static struct sums sums;

static int set_up(void **state)
{
	assert_int_equal(sums_open(&sums, BUDGET), 0);
	return 0;
}

static int tear_down(void **state)
{
	sums_close(&sums);
	return 0;
}

static void fill(unsigned char *page, unsigned seed)
{
	for (unsigned i = 0; i < PAGE_BYTES; i++)
		page[i] = (unsigned char)rand_r(&seed);
}

/* The mixing of a place, computed from a page of zeros. */
static void the_sum_is_the_librarys(void **state)
{
	static unsigned char zeros[PAGE_BYTES];
	uint64_t plain = XXH3_64bits(zeros, PAGE_BYTES);

	for (unsigned i = 0; i < 200; i++) {
		_Alignas(64) unsigned char page[PAGE_BYTES];
		uint64_t place = checksum_page(zeros, FILE_A, i) ^ plain;

		fill(page, i);
		assert_int_equal(checksum_page(page, FILE_A, i),
		                 XXH3_64bits(page, PAGE_BYTES) ^ place);
	}
	assert_true(strlen(checksum_variant()) > 0);
}

static void a_misplaced_page_differs(void **state)
{
	static unsigned char page[PAGE_BYTES];
	uint64_t values[2000];
	size_t count = 0;

	for (uint64_t file = 1; file <= 20; file++)
		for (uint64_t i = 0; i < 100; i++)
			values[count++] = checksum_page(page, file, i);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(values[i], values[k]);
}

static void every_bit_counts(void **state)
{
	unsigned char page[PAGE_BYTES];

	fill(page, 1);
	uint64_t right = checksum_page(page, FILE_A, 0);

	for (unsigned bit = 0; bit < PAGE_BYTES * 8; bit += 7) {
		page[bit / 8] ^= (unsigned char)(1 << bit % 8);
		assert_int_not_equal(checksum_page(page, FILE_A, 0), right);
		page[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
}

static enum sum_verdict ask(uint64_t file, uint64_t page, uint64_t value)
{
	enum sum_verdict verdict;

	sums_compare(&sums, file, 1, page, &value, 1, &verdict);
	return verdict;
}

static void what_was_learned_is_known(void **state)
{
	static const uint64_t places[] = {
		0, 1, 63, 64, 65, 1 << 20, (1ULL << 52) - 1, UINT64_MAX >> 12,
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		assert_int_equal(ask(FILE_A, places[i], 5), SUM_UNKNOWN);
		sums_learn(&sums, FILE_A, 1, places[i], 5);
		assert_int_equal(ask(FILE_A, places[i], 5), SUM_MATCHES);
		assert_int_equal(ask(FILE_A, places[i], 6), SUM_DIFFERS);
		/* The file's other state, another file: another name. */
		assert_int_equal(ask(FILE_B, places[i], 5), SUM_UNKNOWN);
		sums_learn(&sums, FILE_A, 1, places[i], 6);
		assert_int_equal(ask(FILE_A, places[i], 6), SUM_MATCHES);
		sums_forget(&sums, FILE_A, places[i], places[i]);
		assert_int_equal(ask(FILE_A, places[i], 6), SUM_UNKNOWN);
	}
}

/* A run is compared across groups as page by page. */
static void runs_are_compared(void **state)
{
	enum { RUN = 300 };
	uint64_t values[RUN];
	enum sum_verdict verdicts[RUN];

	for (unsigned i = 0; i < RUN; i++) {
		values[i] = 1000 + i;
		if (i % 3 == 0)
			sums_learn(&sums, FILE_A, 1, 50 + i, values[i]);
		if (i % 3 == 1)
			sums_learn(&sums, FILE_A, 1, 50 + i, 7);
	}
	sums_compare(&sums, FILE_A, 1, 50, values, RUN, verdicts);
	for (unsigned i = 0; i < RUN; i++)
		assert_int_equal(verdicts[i], i % 3 == 0   ? SUM_MATCHES
		                              : i % 3 == 1 ? SUM_DIFFERS
		                                           : SUM_UNKNOWN);
}

static void a_replaced_group_is_unknown(void **state)
{
	const uint64_t groups = 20 * sums.set_count * WAYS;
	uint64_t known = 0;

	for (uint64_t number = 0; number < groups; number++)
		sums_learn(&sums, FILE_A, 1, number * 64 + number % 64, number);
	for (uint64_t number = 0; number < groups; number++) {
		uint64_t page = number * 64;

		for (unsigned slot = 0; slot < 64; slot++) {
			enum sum_verdict verdict =
				ask(FILE_A, page + slot, number);

			/* Never somebody else's value. */
			assert_int_not_equal(verdict, SUM_DIFFERS);
			if (verdict == SUM_UNKNOWN)
				continue;
			assert_int_equal(slot, number % 64);
			known++;
		}
	}
	/* Those of the groups that were used last. */
	assert_int_equal(known, sums.set_count * WAYS);
}

/* After a change of ours a difference proves nothing, a match still does. */
static void a_sum_from_before_a_change_is_old(void **state)
{
	const uint64_t values[] = {5, 6, 7};
	enum sum_verdict verdicts[3];

	for (unsigned i = 0; i < 3; i++)
		sums_learn(&sums, FILE_A, 1, i, 5 + i % 2);
	sums_learn(&sums, FILE_A, 2, 1, 9);
	sums_compare(&sums, FILE_A, 2, 0, values, 3, verdicts);
	assert_int_equal(verdicts[0], SUM_MATCHES_OLD);
	assert_int_equal(verdicts[1], SUM_DIFFERS);
	assert_int_equal(verdicts[2], SUM_DIFFERS_OLD);
}

/* Neighbours do not push each other out while there is room. */
static void a_large_file_fills_the_table(void **state)
{
	const uint64_t groups = sums.set_count * WAYS;

	for (uint64_t number = 0; number < groups; number++)
		sums_learn(&sums, FILE_A, 1, number * 64, number);
	for (uint64_t number = 0; number < groups; number++)
		assert_int_equal(ask(FILE_A, number * 64, number), SUM_MATCHES);
}

static void ranges_are_forgotten(void **state)
{
	static const struct {
		uint64_t first;
		uint64_t last;
	} rows[] = {
		{0, 0},
		{0, 63},
		{0, 64},
		{1, 62},
		{63, 64},
		{100, 300},
		{0, 999},
		{999, 999},
		{500, UINT64_MAX},
		{0, UINT64_MAX},
		{2000, UINT64_MAX},
		{UINT64_MAX, UINT64_MAX},
		{64, 1 << 20},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool was_known[1000];

		for (uint64_t page = 0; page < 1000; page++)
			sums_learn(&sums, FILE_A, 1, page, page);
		sums_learn(&sums, FILE_B, 1, 1 << 21, 9);
		for (uint64_t page = 0; page < 1000; page++)
			was_known[page] = ask(FILE_A, page, page) ==
			                  SUM_MATCHES;
		sums_forget(&sums, FILE_A, rows[i].first, rows[i].last);
		for (uint64_t page = 0; page < 1000; page++) {
			bool is_known =
				was_known[page] &&
				(page < rows[i].first || page > rows[i].last);

			assert_int_equal(ask(FILE_A, page, page),
			                 is_known ? SUM_MATCHES : SUM_UNKNOWN);
		}
		assert_int_equal(ask(FILE_B, 1 << 21, 9), SUM_MATCHES);
	}
}

static void without_a_budget_nothing_is_known(void **state)
{
	struct sums none;
	uint64_t value = 1;
	enum sum_verdict verdict = SUM_MATCHES;

	assert_int_equal(sums_open(&none, 100), 0);
	sums_learn(&none, FILE_A, 1, 0, value);
	sums_compare(&none, FILE_A, 1, 0, &value, 1, &verdict);
	assert_int_equal(verdict, SUM_UNKNOWN);
	sums_forget(&none, FILE_A, 0, UINT64_MAX);
	sums_close(&none);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sum_is_the_librarys),
		cmocka_unit_test(a_misplaced_page_differs),
		cmocka_unit_test(every_bit_counts),
		TEST(what_was_learned_is_known),
		TEST(runs_are_compared),
		TEST(a_replaced_group_is_unknown),
		TEST(a_large_file_fills_the_table),
		TEST(a_sum_from_before_a_change_is_old),
		TEST(ranges_are_forgotten),
		cmocka_unit_test(without_a_budget_nothing_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
