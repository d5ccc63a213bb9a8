/*
 * An error of the disk costs the pages it is about and nothing else: every byte
 * that is delivered is right, an error is never cached, a passing one is not
 * seen at all, and afterwards nothing is pinned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "engine/backing.h"
#include "engine/cleanup.h"
#include "tests/lib/fault_method.h"
#include "tests/lib/rig.h"

#define KIB 1024UL
#define MIB (1024 * KIB)

/* A scenario ends when its n-th I/O was never made; more is a runaway. */
enum { IOS_MAX = 500 };

static const enum choice_io_method methods[] = {
	IO_METHOD_URING,
	IO_METHOD_WORKER,
	IO_METHOD_SYNC,
};

/* Right bytes, or the error. */
static void read_or_fail(struct rig_file *file, uint64_t offset, size_t length,
                         int error)
{
	static char bytes[READ_BYTES_MAX];
	ssize_t n =
		rig_read(file, (unsigned)(offset >> 16), offset, length, bytes);
	size_t left = offset < file->size ? file->size - offset : 0;

	if (n < 0) {
		assert_int_equal(n, error);
		return;
	}
	assert_int_equal(n, length < left ? length : left);
	assert_memory_equal(bytes, file->model + offset, n);
}

/* All kinds of reads, with writes between them. */
static void scenario(struct rig_file *file, int error)
{
	for (uint64_t at = 0; at < 300 * KIB; at += 20 * KIB)
		read_or_fail(file, at, 20 * KIB, error);
	read_or_fail(file, 1 * MIB + 100, 100 * KIB, error);
	rig_write(file, 1 * MIB + 50 * KIB, 3000, 1);
	read_or_fail(file, 1 * MIB, 200 * KIB, error);
	rig_truncate(file, 1 * MIB + 10000);
	read_or_fail(file, 1 * MIB - 8192, 30000, error);
	rig_quiesce(file->rig);
}

/* The scenario with the n-th I/O going wrong, once or from then on.  False: it
 * has not so many. */
static bool run_with_fault(enum choice_io_method method,
                           const struct fault_rule *rule)
{
	struct rig rig;
	struct rig_file file;
	struct fault fault;

	rig_open(&rig, &(struct rig_setup){.method = method,
	                                   .cache_pages = 400,
	                                   .combine_bytes = 64 * KIB});
	fault_install(&fault, rig.engine);
	rig_file_open(&rig, &file, "a", 1500 * KIB);
	fault_set(&fault, rule);
	scenario(&file, rule->error);
	uint32_t met = fault_met(&fault);

	assert_int_equal(rig_pinned_pages(&rig), 0);
	/* Nothing of it stayed. */
	fault_set(&fault, &(struct fault_rule){.kind = FAULT_NONE});
	for (uint64_t at = 0; at < file.size; at += 100 * KIB)
		rig_expect_read(&file, 0, at, 100 * KIB);
	rig_file_close(&file);
	rig_quiesce(&rig);
	fault_remove(&fault, rig.engine);
	rig_close(&rig);
	return met > 0;
}

static void the_nth_io_fails(void **state)
{
	static const int errors[] = {-EIO, -ENOMEM};

	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		struct fault_rule rule = {
			.kind = FAULT_ERROR,
			.error = errors[m % ARRAY_SIZE(errors)],
		};

		for (rule.times = 1;; rule.times = FAULT_FOR_EVER) {
			for (rule.pass = 0; run_with_fault(methods[m], &rule);
			     rule.pass++)
				assert_true(rule.pass < IOS_MAX);
			if (rule.times == FAULT_FOR_EVER)
				break;
		}
	}
}

/* One error in passing is not seen by the reader. */
static void a_wanted_page_is_read_once_more(void **state)
{
	struct rig rig;
	struct rig_file file;
	struct fault fault;

	rig_open(&rig, &(struct rig_setup){.has_no_readahead = true});
	fault_install(&fault, rig.engine);
	rig_file_open(&rig, &file, "a", MIB);
	for (uint64_t at = 0; at < MIB; at += 128 * KIB) {
		fault_set(&fault, &(struct fault_rule){.kind = FAULT_ERROR,
		                                       .times = 1,
		                                       .error = -EIO});
		rig_expect_read(&file, 0, at, 128 * KIB);
		assert_int_equal(fault_met(&fault), 1);
	}
	assert_int_equal(rig_stat_of(&rig, io_errors), 0);
	assert_true(rig_stat_of(&rig, io_retries) > 0);
	rig_file_close(&file);
	fault_remove(&fault, rig.engine);
	rig_close(&rig);
}

/* A bad sector under a 1 MiB I/O. */
static void one_bad_page_costs_one_page(void **state)
{
	enum { BAD = 77 };
	struct rig rig;
	struct rig_file file;
	struct fault fault;

	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		rig_open(&rig, &(struct rig_setup){.method = methods[m],
		                                   .has_no_readahead = true});
		fault_install(&fault, rig.engine);
		rig_file_open(&rig, &file, "a", 3 * MIB);
		fault_set(&fault, &(struct fault_rule){.kind = FAULT_ERROR,
		                                       .times = FAULT_FOR_EVER,
		                                       .error = -EIO,
		                                       .is_one_page = true,
		                                       .page_index = BAD});
		/* One I/O of the largest size covers it. */
		rig_expect_error(&file, 0, 0, MIB, -EIO);
		assert_true(fault_met(&fault) > 0);
		assert_int_equal(rig_stat_of(&rig, io_errors), 1);
		/* All others are there without another I/O on it. */
		uint32_t met = fault_met(&fault);

		for (uint64_t page = 0; page < 256; page++) {
			if (page != BAD)
				rig_expect_read(&file, 0, page << PAGE_SHIFT,
				                4096);
		}
		assert_int_equal(fault_met(&fault), met);
		/* It is asked for again each time, never cached. */
		rig_expect_error(&file, 1, (uint64_t)BAD << PAGE_SHIFT, 1,
		                 -EIO);
		assert_true(fault_met(&fault) > met);
		fault_set(&fault, &(struct fault_rule){.kind = FAULT_NONE});
		rig_expect_read(&file, 0, 0, MIB);
		rig_file_close(&file);
		rig_quiesce(&rig);
		fault_remove(&fault, rig.engine);
		rig_close(&rig);
	}
}

/* What nobody waits for fails silently, and is read when somebody does. */
static void an_error_of_readahead_is_not_seen(void **state)
{
	enum { BAD = 700 };
	struct rig rig;
	struct rig_file file;
	struct fault fault;

	rig_open(&rig, &(struct rig_setup){.method = IO_METHOD_URING});
	fault_install(&fault, rig.engine);
	rig_file_open(&rig, &file, "a", 8 * MIB);
	fault_set(&fault, &(struct fault_rule){.kind = FAULT_ERROR,
	                                       .times = FAULT_FOR_EVER,
	                                       .error = -EIO,
	                                       .is_one_page = true,
	                                       .page_index = BAD});
	for (uint64_t at = 0; at < 8 * MIB; at += 64 * KIB) {
		uint64_t first = page_of(at);

		if (BAD >= first && BAD < first + 16)
			rig_expect_error(&file, 0, at, 64 * KIB, -EIO);
		else
			rig_expect_read(&file, 0, at, 64 * KIB);
	}
	rig_file_close(&file);
	rig_quiesce(&rig);
	fault_remove(&fault, rig.engine);
	rig_close(&rig);
}

/* Neither is an error of the disk: try again, though not for ever. */
static void interruptions_are_not_errors(void **state)
{
	static const int errors[] = {-EINTR, -EAGAIN};
	struct rig rig;
	struct rig_file file;
	struct fault fault;

	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		rig_open(&rig, &(struct rig_setup){.method = methods[m],
		                                   .has_no_readahead = true});
		fault_install(&fault, rig.engine);
		rig_file_open(&rig, &file, "a", MIB);
		for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
			struct fault_rule rule = {.kind = FAULT_ERROR,
			                          .times = 100,
			                          .error = errors[i]};

			fault_set(&fault, &rule);
			file_drop(file.file);
			rig_expect_read(&file, 0, 1000, 500 * KIB);
			assert_int_equal(fault_met(&fault), 100);

			rule.times = FAULT_FOR_EVER;
			fault_set(&fault, &rule);
			file_drop(file.file);
			assert_true(rig_read(&file, 0, 0, 1, NULL) < 0);
		}
		fault_set(&fault, &(struct fault_rule){.kind = FAULT_NONE});
		rig_expect_read(&file, 0, 0, MIB);
		rig_file_close(&file);
		rig_quiesce(&rig);
		fault_remove(&fault, rig.engine);
		rig_close(&rig);
	}
}

/* A file on which O_DIRECT turns out not to work is read without. */
static void direct_falls_back_once_a_file(void **state)
{
	struct rig rig;
	struct rig_file file;
	struct fault fault;

	rig_open(&rig, &(struct rig_setup){.method = IO_METHOD_URING});
	fault_install(&fault, rig.engine);
	rig_file_open(&rig, &file, "a", MIB);
	if (!file.file->is_direct)
		skip();
	fault_set(&fault, &(struct fault_rule){.kind = FAULT_ERROR,
	                                       .times = 1,
	                                       .error = -EINVAL});
	for (uint64_t at = 0; at < MIB; at += 100 * KIB)
		rig_expect_read(&file, 0, at, 100 * KIB);
	rig_quiesce(&rig);
	assert_int_equal(rig_stat_of(&rig, direct_fallbacks), 1);
	assert_false(file.file->is_direct);
	assert_true(rig_stat_of(&rig, buffered_ios) > 0);
	rig_file_close(&file);
	fault_remove(&fault, rig.engine);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nth_io_fails),
		cmocka_unit_test(a_wanted_page_is_read_once_more),
		cmocka_unit_test(one_bad_page_costs_one_page),
		cmocka_unit_test(an_error_of_readahead_is_not_seen),
		cmocka_unit_test(interruptions_are_not_errors),
		cmocka_unit_test(direct_falls_back_once_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
