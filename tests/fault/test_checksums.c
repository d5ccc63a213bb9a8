/*
 * A page whose sum is known is never delivered wrong: a bit that flips on the
 * way is read again and counted, one that stays flipped is an error for that
 * page alone, and the known sum is not overwritten by it.
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

enum { PAGES = 256, SIZE = PAGES * 4096 - 1000 };

static const enum choice_io_method methods[] = {
	IO_METHOD_URING,
	IO_METHOD_WORKER,
	IO_METHOD_SYNC,
};

struct fixture {
	struct rig rig;
	struct rig_file file;
	struct fault fault;
};

/* A file all of whose sums are known and of which nothing is cached.  False:
 * this filesystem has no O_DIRECT, and so no sums. */
static bool open_known(struct fixture *fixture, const struct rig_setup *setup)
{
	struct rig_file *file = &fixture->file;

	rig_open(&fixture->rig, setup);
	fault_install(&fixture->fault, fixture->rig.engine);
	rig_file_open(&fixture->rig, file, "a", SIZE);
	rig_file_settle(file);
	rig_expect_read(file, 0, 0, SIZE);
	rig_quiesce(&fixture->rig);
	file_drop(file->file);
	if (!file->file->is_direct)
		return false;
	assert_int_equal(rig_stat_of(&fixture->rig, checksum_learned), PAGES);
	return true;
}

static void close_all(struct fixture *fixture)
{
	rig_file_close(&fixture->file);
	rig_quiesce(&fixture->rig);
	fault_remove(&fixture->fault, fixture->rig.engine);
	rig_close(&fixture->rig);
}

/* @keep says which byte of the page. */
static void flip(struct fixture *fixture, uint64_t page, uint32_t times,
                 size_t keep)
{
	fault_set(&fixture->fault, &(struct fault_rule){.kind = FAULT_FLIP,
	                                                .times = times,
	                                                .keep = keep,
	                                                .is_one_page = true,
	                                                .page_index = page});
}

static void a_passing_flip_is_read_again(void **state)
{
	static const struct {
		uint64_t page;
		uint32_t times;
		size_t byte;
	} rows[] = {
		{0, 1, 0},     {7, 1, 4095},   {100, 2, 17},
		{254, 2, 100}, {255, 1, 3000},
	};
	struct fixture fixture;

	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		if (!open_known(&fixture,
		                &(struct rig_setup){.method = methods[m]})) {
			close_all(&fixture);
			skip();
		}
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			flip(&fixture, rows[i].page, rows[i].times,
			     rows[i].byte);
			rig_expect_read(&fixture.file, 0, 0, SIZE);
			assert_int_equal(fault_met(&fixture.fault),
			                 rows[i].times);
			assert_int_equal(
				rig_stat_of(&fixture.rig, checksum_transient),
				i + 1);
			file_drop(fixture.file.file);
		}
		assert_int_equal(rig_stat_of(&fixture.rig, checksum_mismatches),
		                 0);
		close_all(&fixture);
	}
}

static void a_lasting_flip_is_an_error_for_its_page(void **state)
{
	enum { BAD = 100 };
	struct fixture fixture;

	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		if (!open_known(&fixture, &(struct rig_setup){
						  .method = methods[m],
						  .has_no_readahead = true})) {
			close_all(&fixture);
			skip();
		}
		flip(&fixture, BAD, FAULT_FOR_EVER, 5);
		rig_expect_error(&fixture.file, 0, 0, SIZE, -EBADMSG);
		for (uint64_t page = 0; page < PAGES; page++) {
			if (page != BAD)
				rig_expect_read(&fixture.file, 1, page * 4096,
				                4096);
		}
		assert_int_equal(rig_stat_of(&fixture.rig, checksum_mismatches),
		                 1);
		/* Not learned: it stays an error. */
		for (unsigned i = 2; i < 5; i++) {
			rig_expect_error(&fixture.file, 0, BAD * 4096, 10,
			                 -EBADMSG);
			assert_int_equal(
				rig_stat_of(&fixture.rig, checksum_mismatches),
				i);
		}
		/* And is well again when the disk is. */
		flip(&fixture, BAD, 0, 0);
		rig_expect_read(&fixture.file, 0, 0, SIZE);
		close_all(&fixture);
	}
}

/* What is not known cannot be told; but what was read twice the same way is
 * learned, and then it is. */
static void an_unknown_page_is_believed(void **state)
{
	struct fixture fixture;
	char byte;

	if (!open_known(&fixture, &(struct rig_setup){.has_no_sums = false})) {
		close_all(&fixture);
		skip();
	}
	sums_forget(&fixture.rig.engine->sums, fixture.file.file->sum_id, 9, 9);
	flip(&fixture, 9, FAULT_FOR_EVER, 0);
	assert_int_equal(rig_read(&fixture.file, 0, 9 * 4096, 1, &byte), 1);
	assert_int_equal(byte, (char)(fixture.file.model[9 * 4096] ^ 0x10));
	close_all(&fixture);
}

static void a_log_only_mount_delivers_what_there_is(void **state)
{
	struct fixture fixture;

	if (!open_known(&fixture,
	                &(struct rig_setup){.logs_corruption = true})) {
		close_all(&fixture);
		skip();
	}
	flip(&fixture, 3, FAULT_FOR_EVER, 0);
	assert_int_equal(rig_read(&fixture.file, 0, 0, SIZE, NULL), SIZE);
	assert_int_equal(rig_stat_of(&fixture.rig, checksum_mismatches), 1);
	/* The sum is still the right one. */
	file_drop(fixture.file.file);
	flip(&fixture, 3, 1, 0);
	rig_expect_read(&fixture.file, 0, 0, SIZE);
	assert_int_equal(rig_stat_of(&fixture.rig, checksum_transient), 1);
	close_all(&fixture);
}

/* Whatever is written is known from then on, and what was there before is
 * not held against it. */
static void a_write_changes_what_is_known(void **state)
{
	static const struct {
		uint64_t offset;
		size_t length;
	} rows[] = {
		{0, 4096},       {100, 10},   {8000, 9000},
		{SIZE - 10, 10}, {SIZE, 100}, {SIZE + 50000, 10},
	};
	struct fixture fixture;

	if (!open_known(&fixture, &(struct rig_setup){.has_no_sums = false})) {
		close_all(&fixture);
		skip();
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_expect_read(&fixture.file, 0, 0, READ_BYTES_MAX);
		rig_write(&fixture.file, rows[i].offset, rows[i].length,
		          (uint32_t)i + 1);
		rig_quiesce(&fixture.rig);
		file_drop(fixture.file.file);
		rig_expect_read(&fixture.file, 0, 0, READ_BYTES_MAX);
		/* What was not written whole is known once it was read. */
		rig_expect_read(&fixture.file, 0, 900000, READ_BYTES_MAX);
		rig_quiesce(&fixture.rig);
		flip(&fixture, page_of(rows[i].offset), 1, 0);
		file_drop(fixture.file.file);
		rig_expect_read(&fixture.file, 0, 0, READ_BYTES_MAX);
		rig_expect_read(&fixture.file, 0, 900000, READ_BYTES_MAX);
		assert_int_equal(rig_stat_of(&fixture.rig, checksum_transient),
		                 i + 1);
	}
	assert_int_equal(rig_stat_of(&fixture.rig, checksum_mismatches), 0);
	close_all(&fixture);
}

/* A file that somebody else changed is another file to the sums. */
static void a_change_behind_accuses_nobody(void **state)
{
	struct fixture fixture;

	if (!open_known(&fixture, &(struct rig_setup){.has_no_sums = false})) {
		close_all(&fixture);
		skip();
	}
	for (unsigned i = 1; i < 20; i++) {
		rig_write_behind(&fixture.file, i * 5000, 3000, i);
		rig_expect_read(&fixture.file, i, 0, SIZE);
		rig_quiesce(&fixture.rig);
		file_drop(fixture.file.file);
	}
	assert_int_equal(rig_stat_of(&fixture.rig, checksum_mismatches), 0);
	assert_int_equal(rig_stat_of(&fixture.rig, checksum_transient), 0);
	close_all(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_passing_flip_is_read_again),
		cmocka_unit_test(a_lasting_flip_is_an_error_for_its_page),
		cmocka_unit_test(an_unknown_page_is_believed),
		cmocka_unit_test(a_log_only_mount_delivers_what_there_is),
		cmocka_unit_test(a_write_changes_what_is_known),
		cmocka_unit_test(a_change_behind_accuses_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
