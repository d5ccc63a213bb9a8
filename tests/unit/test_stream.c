/*
 * Who reads in order is read ahead for, whatever the order in which the
 * requests arrive and whoever else reads the file; who reads at random costs
 * nothing extra; and nobody is read ahead for beyond the limits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/cleanup.h"
#include "engine/stream.h"

enum { MIB = 256 }; /* in pages */

static const struct stream_limits wide = {
	.file_pages = 1 << 20,
	.window_max = 16 * MIB,
	.combine_pages = MIB,
};

/* One read, all that it calls for accepted. */
static struct stream_plan step(struct stream_set *set, uint64_t first,
                               uint64_t count, bool had_to_wait,
                               const struct stream_limits *limits)
{
	struct stream_plan plan = stream_advance(set, first, first + count - 1,
	                                         had_to_wait, limits);

	if (plan.count > 0)
		stream_accept(set, &plan, plan.count);
	return plan;
}

static uint32_t rand_next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(*seed >> 33);
}

static void sequential_reads_are_read_ahead(void **state)
{
	static const unsigned sizes[] = {1, 2, 31, 32, 33, 256, 257};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct stream_set set = {0};
		uint64_t next = 10000;
		uint64_t covered = 0;
		unsigned uncovered = 0;

		for (unsigned k = 0; k < 2000; k++) {
			struct stream_plan plan =
				step(&set, next, sizes[i], true, &wide);

			if (plan.count > 0) {
				/* Without holes and without repetition. */
				if (covered < next + sizes[i])
					covered = next + sizes[i];
				assert_int_equal(plan.first, covered);
				covered = plan.first + plan.count;
			}
			next += sizes[i];
			if (k >= 4 && covered < next)
				uncovered++;
			assert_true(covered <= next + wide.window_max);
		}
		assert_int_equal(uncovered, 0);
		/* A reader that waits gets all there is, but for a batch. */
		assert_true(covered >= next + wide.window_max - 2 * MIB);
	}
}

static void who_never_waits_gets_a_modest_window(void **state)
{
	struct stream_set set = {0};
	uint64_t ahead = 0;

	for (uint64_t next = 0; next < 100000; next += 32) {
		struct stream_plan plan = step(&set, next, 32, false, &wide);

		if (plan.count > 0 && plan.first + plan.count - next > ahead)
			ahead = plan.first + plan.count - next;
	}
	/* Enough for the device, not all that is allowed. */
	assert_in_range(ahead, 2 * MIB, 8 * MIB);
}

static void the_first_read_is_trusted_at_the_start_only(void **state)
{
	struct stream_set set = {0};

	assert_true(step(&set, 0, 4, true, &wide).count > 0);
	set = (struct stream_set){0};
	assert_int_equal(step(&set, 500, 4, true, &wide).count, 0);
	assert_true(step(&set, 504, 4, true, &wide).count > 0);
}

static void random_reads_cost_nothing(void **state)
{
	struct stream_set set = {0};
	uint64_t seed = 1;

	for (unsigned i = 0; i < 100000; i++) {
		/* Never neighbours, and never the start. */
		uint64_t page = 1 + 2 * (rand_next(&seed) % (1 << 19));
		bool is_new = true;

		for (unsigned k = 0; k < STREAM_MAX; k++) {
			const struct stream *stream = &set.streams[k];

			if (stream->last_used && page >= stream->next - 1 &&
			    page <= stream->next)
				is_new = false;
		}
		if (is_new)
			assert_int_equal(step(&set, page, 1, true, &wide).count,
			                 0);
	}
}

/* The kernel's readahead above us arrives so much out of order. */
static void reordered_requests_are_one_stream(void **state)
{
	struct stream_set set = {0};
	uint64_t covered = 0;
	uint64_t seed = 7;

	for (uint64_t base = 0; base < 50000; base += 128) {
		uint64_t order[4] = {base, base + 32, base + 64, base + 96};

		for (unsigned i = 3; base > 0 && i > 0; i--) {
			unsigned k = rand_next(&seed) % (i + 1);
			uint64_t swapped = order[i];

			order[i] = order[k];
			order[k] = swapped;
		}
		for (unsigned i = 0; i < 4; i++) {
			struct stream_plan plan =
				step(&set, order[i], 32, true, &wide);

			if (plan.count == 0)
				continue;
			if (covered > 0)
				assert_int_equal(plan.first, covered);
			covered = plan.first + plan.count;
		}
		assert_true(covered >= base + 128);
	}
	unsigned used = 0;

	for (unsigned i = 0; i < STREAM_MAX; i++)
		used += set.streams[i].last_used != 0;
	assert_int_equal(used, 1);
}

/* @readers at once in places far apart, at different speeds. */
static void read_interleaved(unsigned readers, bool is_random)
{
	struct stream_set set = {0};
	uint64_t next[STREAM_MAX];
	uint64_t covered[STREAM_MAX];
	uint64_t seed = readers;

	for (unsigned r = 0; r < readers; r++) {
		next[r] = 100000 * (r + 1);
		covered[r] = 0;
	}
	for (unsigned i = 0; i < 2000; i++) {
		unsigned r = is_random ? rand_next(&seed) % readers
		                       : i % readers;
		unsigned size = 1 + rand_next(&seed) % 64;
		struct stream_plan plan =
			step(&set, next[r], size, true, &wide);

		next[r] += size;
		if (plan.count > 0)
			covered[r] = plan.first + plan.count;
		assert_true(covered[r] < 100000 * (r + 2));
	}
	uint64_t ahead = 0;

	for (unsigned r = 0; r < readers; r++) {
		assert_true(covered[r] >= next[r]);
		ahead += covered[r] - next[r];
	}
	/* They share: all together may be little more than what is allowed,
	 * windows shrink as they are used up. */
	assert_true(ahead <= 2 * wide.window_max);
}

static void interleaved_streams_are_all_read_ahead(void **state)
{
	for (unsigned readers = 1; readers <= STREAM_MAX; readers++) {
		read_interleaved(readers, false);
		read_interleaved(readers, true);
	}
}

static void a_ninth_reader_replaces_the_one_unused_longest(void **state)
{
	struct stream_set set = {0};

	for (unsigned r = 0; r < STREAM_MAX; r++)
		step(&set, 1000 + 10000 * r, 4, true, &wide);
	step(&set, 500000, 4, true, &wide);
	assert_int_equal(step(&set, 1004, 4, true, &wide).count, 0);
	assert_true(step(&set, 500004, 4, true, &wide).count > 0);
	assert_true(step(&set, 21004, 4, true, &wide).count > 0);
}

static void limits_hold(void **state)
{
	static const struct stream_limits rows[] = {
		{1 << 20, 0, 256},  /* switched off */
		{1 << 20, 1, 256},  /* a page */
		{1 << 20, 16, 256}, /* less than the first window */
		{1 << 20, 4096, 1}, /* no combining */
		{1, 4096, 256},     /* tiny files */
		{100, 4096, 256},        {1000, 64, 16},
		{1 << 20, 1 << 18, 256}, /* a huge window */
		{1ULL << 52, 4096, 256},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct stream_set set = {0};
		uint64_t end = rows[i].file_pages < 20000 ? rows[i].file_pages
		                                          : 20000;

		for (uint64_t next = 0; next < end; next++) {
			struct stream_plan plan =
				step(&set, next, 1, true, &rows[i]);

			if (rows[i].window_max == 0)
				assert_int_equal(plan.count, 0);
			if (plan.count == 0)
				continue;
			assert_true(plan.first + plan.count <=
			            rows[i].file_pages);
			assert_true(plan.first + plan.count <=
			            next + 1 + rows[i].window_max);
		}
	}
}

static void the_end_of_a_huge_file_is_no_trap(void **state)
{
	struct stream_set set = {0};
	struct stream_limits limits = wide;
	uint64_t last = (1ULL << 51) - 1;

	limits.file_pages = last + 1;
	step(&set, last - 100, 4, true, &limits);
	for (uint64_t next = last - 96; next <= last; next += 4) {
		struct stream_plan plan = step(&set, next, 4, true, &limits);

		if (plan.count > 0)
			assert_true(plan.first + plan.count <= last + 1);
	}
}

/* Nothing could be started: it is asked for again, without a hole. */
static void what_was_not_accepted_is_proposed_again(void **state)
{
	struct stream_set set = {0};
	struct stream_plan first = stream_advance(&set, 0, 3, true, &wide);

	assert_true(first.count > 10);
	struct stream_plan again = stream_advance(&set, 4, 7, true, &wide);

	assert_int_equal(again.first, 8);
	stream_accept(&set, &again, 10);
	struct stream_plan next = stream_advance(&set, 8, 11, true, &wide);

	assert_int_equal(next.first, 18);
	stream_accept(&set, &next, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sequential_reads_are_read_ahead),
		cmocka_unit_test(who_never_waits_gets_a_modest_window),
		cmocka_unit_test(the_first_read_is_trusted_at_the_start_only),
		cmocka_unit_test(random_reads_cost_nothing),
		cmocka_unit_test(reordered_requests_are_one_stream),
		cmocka_unit_test(interleaved_streams_are_all_read_ahead),
		cmocka_unit_test(
			a_ninth_reader_replaces_the_one_unused_longest),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(the_end_of_a_huge_file_is_no_trap),
		cmocka_unit_test(what_was_not_accepted_is_proposed_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
