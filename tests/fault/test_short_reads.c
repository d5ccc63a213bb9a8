/*
 * A read that brings less than it was asked for goes on where it stopped,
 * wherever that is; what was not read is never delivered, least of all as
 * zeros, unless the file really ends there.
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

enum { SIZE = 5 * 4096 + 1000 };

static const enum choice_io_method methods[] = {
	IO_METHOD_URING,
	IO_METHOD_WORKER,
	IO_METHOD_SYNC,
};

static void every_amount(enum choice_io_method method,
                         enum choice_tristate direct, uint32_t times,
                         size_t step)
{
	struct rig rig;
	struct rig_file file;
	struct fault fault;

	rig_open(&rig, &(struct rig_setup){.method = method,
	                                   .direct = direct,
	                                   .has_no_readahead = true});
	fault_install(&fault, rig.engine);
	rig_file_open(&rig, &file, "a", SIZE);
	for (size_t keep = 1; keep <= SIZE; keep += step) {
		fault_set(&fault, &(struct fault_rule){.kind = FAULT_SHORT,
		                                       .times = times,
		                                       .keep = keep});
		file_drop(file.file);
		rig_expect_read(&file, 0, 0, SIZE + 500);
		assert_true(fault_met(&fault) > 0);
	}
	assert_int_equal(rig_stat_of(&rig, io_errors), 0);
	assert_int_equal(rig_stat_of(&rig, checksum_mismatches), 0);
	assert_true(rig_stat_of(&rig, io_short) > 0);
	rig_file_close(&file);
	fault_remove(&fault, rig.engine);
	rig_close(&rig);
}

static void one_short_read_of_any_amount(void **state)
{
	every_amount(IO_METHOD_URING, CHOICE_AUTO, 1, 7);
	every_amount(IO_METHOD_WORKER, CHOICE_AUTO, 1, 97);
	every_amount(IO_METHOD_SYNC, CHOICE_AUTO, 1, 97);
	every_amount(IO_METHOD_SYNC, CHOICE_OFF, 1, 97);
}

/* Five in a row, each of so many bytes; a direct one may start at a page only,
 * so less than a page at a time would not get on. */
static void several_short_reads(void **state)
{
	for (uint32_t times = 2; times <= 5; times++) {
		every_amount(IO_METHOD_SYNC, CHOICE_OFF, times, 101);
		every_amount(IO_METHOD_SYNC, CHOICE_AUTO, times, 4096);
	}
}

/* The end of the file, says the disk, before it is there: once. */
static void a_false_end_is_not_believed(void **state)
{
	struct rig rig;
	struct rig_file file;
	struct fault fault;

	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		rig_open(&rig, &(struct rig_setup){.method = methods[m],
		                                   .has_no_readahead = true});
		fault_install(&fault, rig.engine);
		rig_file_open(&rig, &file, "a", SIZE);
		fault_set(&fault, &(struct fault_rule){.kind = FAULT_SHORT,
		                                       .times = 1});
		rig_expect_read(&file, 0, 0, SIZE);
		assert_int_equal(fault_met(&fault), 1);
		rig_file_close(&file);
		fault_remove(&fault, rig.engine);
		rig_close(&rig);
	}
}

/* Always, and wherever: rather an error than zeros. */
static void a_false_end_for_ever_is_an_error(void **state)
{
	static const size_t keeps[] = {0, 1, 100, 4095, 4097, 9000};
	struct rig rig;
	struct rig_file file;
	struct fault fault;
	static char bytes[SIZE];

	rig_open(&rig, &(struct rig_setup){.has_no_readahead = true});
	fault_install(&fault, rig.engine);
	rig_file_open(&rig, &file, "a", SIZE);
	for (size_t i = 0; i < ARRAY_SIZE(keeps); i++) {
		fault_set(&fault, &(struct fault_rule){.kind = FAULT_SHORT,
		                                       .times = FAULT_FOR_EVER,
		                                       .keep = keeps[i]});
		file_drop(file.file);
		ssize_t n = rig_read(&file, 0, 0, SIZE, bytes);

		if (n < 0) {
			assert_int_equal(n, -EIO);
		} else {
			assert_int_equal(n, SIZE);
			assert_memory_equal(bytes, file.model, SIZE);
		}
		fault_set(&fault, &(struct fault_rule){.kind = FAULT_NONE});
		rig_expect_read(&file, 0, 0, SIZE);
	}
	rig_file_close(&file);
	fault_remove(&fault, rig.engine);
	rig_close(&rig);
}

/* First some bytes, then the error: the bytes are good. */
static void an_error_after_a_short_read(void **state)
{
	struct rig rig;
	struct rig_file file;
	struct fault fault;

	rig_open(&rig, &(struct rig_setup){.has_no_readahead = true});
	fault_install(&fault, rig.engine);
	rig_file_open(&rig, &file, "a", SIZE);
	fault_set(&fault, &(struct fault_rule){.kind = FAULT_ERROR,
	                                       .times = FAULT_FOR_EVER,
	                                       .error = -EIO,
	                                       .is_one_page = true,
	                                       .page_index = 3});
	rig_expect_error(&file, 0, 0, SIZE, -EIO);
	rig_expect_read(&file, 0, 0, 3 * 4096);
	rig_expect_read(&file, 0, 4 * 4096, 4096);
	rig_expect_read(&file, 0, 5 * 4096, 4096);
	rig_file_close(&file);
	fault_remove(&fault, rig.engine);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_short_read_of_any_amount),
		cmocka_unit_test(several_short_reads),
		cmocka_unit_test(a_false_end_is_not_believed),
		cmocka_unit_test(a_false_end_for_ever_is_an_error),
		cmocka_unit_test(an_error_after_a_short_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
