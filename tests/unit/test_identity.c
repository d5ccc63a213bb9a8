/*
 * A file that was changed must never look the same: every part of an identity
 * counts, and where the clock of the filesystem is coarse a fresh one proves
 * nothing yet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "engine/clock.h"
#include "engine/identity.h"

#define MS 1000000ULL

static void every_part_counts(void **state)
{
	static const struct {
		struct identity other;
		bool is_equal;
	} rows[] = {
		{{10, 20, 30}, true},  {{11, 20, 30}, false},
		{{10, 21, 30}, false}, {{10, 20, 31}, false},
		{{10, 19, 30}, false}, /* mtime may be set back */
	};
	const struct identity identity = {10, 20, 30};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(identity_equal(&identity, &rows[i].other),
		                 rows[i].is_equal);
		assert_int_equal(identity_equal(&rows[i].other, &identity),
		                 rows[i].is_equal);
	}
}

static void a_young_identity_is_not_settled(void **state)
{
	static const struct {
		uint64_t age_ns;
		bool is_fine;
		bool is_settled;
	} rows[] = {
		{0, false, false},
		{1, false, false},
		{10 * MS, false, false},
		{20 * MS, false, false},
		{20 * MS + 1, false, true},
		{10000 * MS, false, true},
		{0, true, true},
	};
	const uint64_t changed_ns = 1000000 * MS;
	/* mtime may be anything. */
	const struct identity identity = {1, 5, changed_ns};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(identity_is_settled(
					 &identity, changed_ns + rows[i].age_ns,
					 rows[i].is_fine),
		                 rows[i].is_settled);
}

static void a_clock_behind_the_file_settles_nothing(void **state)
{
	const struct identity identity = {1, 5, 1000 * MS};

	assert_false(identity_is_settled(&identity, 0, false));
	assert_false(identity_is_settled(&identity, 999 * MS, false));
}

static void nanoseconds_are_kept(void **state)
{
	struct statx stat = {
		.stx_size = 77,
		.stx_mtime = {.tv_sec = 3, .tv_nsec = 4},
		.stx_ctime = {.tv_sec = 5, .tv_nsec = 999999999},
	};
	struct identity identity;

	identity_of(&stat, &identity);
	assert_int_equal(identity.size, 77);
	assert_int_equal(identity.mtime_ns, 3000000004);
	assert_int_equal(identity.ctime_ns, 5999999999);
}

/* Each change of a real file shows, at once or once it can be told. */
static void changes_of_a_file_show(void **state)
{
	char path[] = "identity-test-XXXXXX";
	auto_close int fd = mkostemp(path, O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	bool is_fine = identity_has_fine_stamps(fd);

	for (unsigned i = 0; i < 200; i++) {
		struct identity before;
		struct identity after;

		assert_int_equal(pwrite(fd, "a", 1, 0), 1);
		assert_int_equal(identity_read(fd, &before), 0);
		while (!identity_is_settled(&before, clock_wall_ns(), is_fine))
			sched_yield();
		assert_int_equal(pwrite(fd, "b", 1, 0), 1);
		assert_int_equal(identity_read(fd, &after), 0);
		assert_false(identity_equal(&before, &after));
	}
}

static void a_bad_descriptor_is_an_error(void **state)
{
	struct identity identity;

	assert_int_equal(identity_read(-1, &identity), -EBADF);
	assert_false(identity_has_fine_stamps(-1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_part_counts),
		cmocka_unit_test(a_young_identity_is_not_settled),
		cmocka_unit_test(a_clock_behind_the_file_settles_nothing),
		cmocka_unit_test(nanoseconds_are_kept),
		cmocka_unit_test(changes_of_a_file_show),
		cmocka_unit_test(a_bad_descriptor_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
