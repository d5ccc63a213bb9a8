/*
 * While an I/O is on its way, nobody else waits for it, and whatever happens to
 * the file meanwhile is seen by every read that starts afterwards: bytes that
 * were read before a change are not cached after it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing.h"
#include "engine/cleanup.h"
#include "tests/lib/fault_method.h"
#include "tests/lib/rig.h"

#define KIB 1024UL
#define MIB (1024 * KIB)

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

static void open_all(struct fixture *fixture, const struct rig_setup *setup,
                     size_t size)
{
	rig_open(&fixture->rig, setup);
	fault_install(&fixture->fault, fixture->rig.engine);
	rig_file_open(&fixture->rig, &fixture->file, "a", size);
}

static void close_all(struct fixture *fixture)
{
	rig_file_close(&fixture->file);
	rig_quiesce(&fixture->rig);
	fault_remove(&fixture->fault, fixture->rig.engine);
	rig_close(&fixture->rig);
}

/* The next I/Os, at most @times, are answered by fault_release() only. */
static void hold(struct fixture *fixture, uint32_t times)
{
	fault_set(&fixture->fault,
	          &(struct fault_rule){.kind = FAULT_HOLD,
	                               .times = times,
	                               .file = fixture->file.file});
}

static void cached_reads_do_not_wait(void **state)
{
	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		struct fixture fixture;
		struct rig_file other;
		struct rig_read held;

		open_all(&fixture, &(struct rig_setup){.method = methods[m]},
		         MIB);
		rig_file_open(&fixture.rig, &other, "b", 200 * KIB);
		rig_expect_read(&other, 0, 0, 100 * KIB);
		rig_expect_read(&fixture.file, 0, 500 * KIB, 4096);
		rig_quiesce(&fixture.rig);
		hold(&fixture, FAULT_FOR_EVER);
		rig_read_start(&held, &fixture.file, 0, 0, 4096);
		fault_await_held(&fixture.fault, 1);
		/* Cached, of another file and of the same, and not cached. */
		rig_expect_read(&other, 0, 0, 100 * KIB);
		rig_expect_read(&fixture.file, 0, 500 * KIB, 4096);
		rig_expect_read(&other, 0, 100 * KIB, 100 * KIB);
		assert_false(rig_read_is_done(&held));
		assert_true(rig_stat_of(&fixture.rig, io_inflight) > 0);
		fault_release(&fixture.fault);
		assert_int_equal(rig_read_wait(&held, NULL), 4096);
		rig_file_close(&other);
		close_all(&fixture);
	}
}

/* Readers of one page on all lanes share its I/O. */
static void readers_join_a_held_io(void **state)
{
	struct fixture fixture;
	struct rig_read reads[20];
	static char bytes[64 * KIB];

	open_all(&fixture, &(struct rig_setup){.has_no_readahead = true}, MIB);
	hold(&fixture, FAULT_FOR_EVER);
	rig_read_start(&reads[0], &fixture.file, 0, 0, 64 * KIB);
	fault_await_held(&fixture.fault, 1);
	for (unsigned i = 1; i < ARRAY_SIZE(reads); i++)
		rig_read_start(&reads[i], &fixture.file, i, i * 1000, 30000);
	/* They have arrived when reads after them are answered. */
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(rig_read(&fixture.file, i, 2 * MIB, 1, NULL),
		                 0);
	assert_int_equal(fault_met(&fixture.fault), 1);
	fault_release(&fixture.fault);
	assert_int_equal(rig_read_wait(&reads[0], bytes), 64 * KIB);
	assert_memory_equal(bytes, fixture.file.model, 64 * KIB);
	for (unsigned i = 1; i < ARRAY_SIZE(reads); i++) {
		assert_int_equal(rig_read_wait(&reads[i], bytes), 30000);
		assert_memory_equal(bytes, fixture.file.model + i * 1000,
		                    30000);
	}
	assert_int_equal(rig_stat_of(&fixture.rig, ios), 1);
	assert_true(rig_stat_of(&fixture.rig, cache_joins) > 100);
	close_all(&fixture);
}

/* A held I/O that fails is an error for all who joined. */
static void joiners_share_an_error(void **state)
{
	struct fixture fixture;
	struct rig_read reads[6];

	open_all(&fixture, &(struct rig_setup){.has_no_readahead = true}, MIB);
	fault_set(&fixture.fault, &(struct fault_rule){.kind = FAULT_ERROR,
	                                               .times = FAULT_FOR_EVER,
	                                               .error = -EIO});
	for (unsigned i = 0; i < ARRAY_SIZE(reads); i++)
		rig_read_start(&reads[i], &fixture.file, i, 4096, 4096);
	for (unsigned i = 0; i < ARRAY_SIZE(reads); i++)
		assert_int_equal(rig_read_wait(&reads[i], NULL), -EIO);
	fault_set(&fixture.fault, &(struct fault_rule){.kind = FAULT_NONE});
	rig_expect_read(&fixture.file, 0, 0, 64 * KIB);
	close_all(&fixture);
}

enum change_kind {
	CHANGE_WRITE,
	CHANGE_WHOLE_PAGES,
	CHANGE_PUNCH,
	CHANGE_SHRINK,
	CHANGE_SHRINK_AND_GROW,
	CHANGE_APPEND,
	CHANGE_BEHIND,
	CHANGE_SHRINK_BEHIND,
	CHANGE_GROW_BEHIND,
	CHANGE_COUNT,
};

static void change(struct rig_file *file, enum change_kind kind)
{
	switch (kind) {
	case CHANGE_WRITE:
		rig_write(file, 5000, 3000, 1);
		break;
	case CHANGE_WHOLE_PAGES:
		rig_write(file, 4096, 8192, 1);
		break;
	case CHANGE_PUNCH:
		rig_punch(file, 4096, 10000);
		break;
	case CHANGE_SHRINK:
		rig_truncate(file, 6000);
		break;
	case CHANGE_SHRINK_AND_GROW:
		rig_truncate(file, 6000);
		rig_truncate(file, 64 * KIB);
		break;
	case CHANGE_APPEND:
		rig_write(file, file->size, 10000, 1);
		break;
	case CHANGE_SHRINK_BEHIND:
		assert_int_equal(ftruncate(file->fd, 6000), 0);
		file->size = 6000;
		break;
	case CHANGE_GROW_BEHIND:
		rig_write_behind(file, file->size, 10000, 1);
		break;
	default:
		rig_write_behind(file, 0, 64 * KIB, 1);
	}
}

/* An answer that is neither the old nor the new state, byte by byte. */
static void expect_old_or_new(const char *bytes, ssize_t n, const char *old,
                              const struct rig_file *file)
{
	assert_true(n >= 0);
	for (ssize_t i = 0; i < n; i++)
		assert_true(bytes[i] == old[i] || bytes[i] == file->model[i]);
}

static void race(const struct rig_setup *setup, enum change_kind kind)
{
	enum { SIZE = 64 * KIB };
	struct fixture fixture;
	struct rig_file *file = &fixture.file;
	struct rig_read held;
	static char old[SIZE];
	static char bytes[SIZE];

	open_all(&fixture, setup, SIZE);
	memcpy(old, file->model, SIZE);
	hold(&fixture, FAULT_FOR_EVER);
	rig_read_start(&held, file, 0, 0, SIZE);
	fault_await_held(&fixture.fault, 1);
	change(file, kind);
	fault_release(&fixture.fault);
	ssize_t n = rig_read_wait(&held, bytes);

	expect_old_or_new(bytes, n, old, file);
	rig_expect_read(file, 0, 0, 2 * SIZE);
	rig_expect_read(file, 1, 0, 2 * SIZE);
	rig_quiesce(&fixture.rig);
	assert_int_equal(rig_stat_of(&fixture.rig, checksum_mismatches), 0);
	assert_int_equal(rig_stat_of(&fixture.rig, checksum_transient), 0);
	/* Nor later, when the disk is asked again. */
	file_drop(file->file);
	rig_expect_read(file, 0, 0, 2 * SIZE);
	assert_int_equal(rig_stat_of(&fixture.rig, checksum_mismatches), 0);
	close_all(&fixture);
}

static void a_change_beats_a_held_fill(void **state)
{
	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		for (int kind = 0; kind < CHANGE_COUNT; kind++) {
			struct rig_setup setup = {.method = methods[m]};

			race(&setup, kind);
			setup.has_no_sums = true;
			race(&setup, kind);
			setup.has_no_readahead = true;
			race(&setup, kind);
		}
	}
}

/* The read starts in the middle of the change, before the bytes are there. */
static void a_fill_within_a_change_is_not_kept(void **state)
{
	struct fixture fixture;
	struct rig_file *file = &fixture.file;
	struct rig_read during;
	struct change change;

	for (unsigned released_late = 0; released_late < 2; released_late++) {
		open_all(&fixture,
		         &(struct rig_setup){.has_no_readahead = true},
		         64 * KIB);
		file_change_begin(file->file, &change, 4096, 4096);
		hold(&fixture, FAULT_FOR_EVER);
		rig_read_start(&during, file, 0, 0, 64 * KIB);
		fault_await_held(&fixture.fault, 1);
		if (!released_late) {
			fault_release(&fixture.fault);
			assert_int_equal(rig_read_wait(&during, NULL),
			                 64 * KIB);
		}
		rig_fill(file->model + 4096, 4096, 4096, 3);
		assert_int_equal(
			pwrite(file->fd, file->model + 4096, 4096, 4096), 4096);
		file_change_end(file->file, &change, NULL, 4096, 4096);
		if (released_late) {
			fault_release(&fixture.fault);
			assert_int_equal(rig_read_wait(&during, NULL),
			                 64 * KIB);
		}
		rig_expect_read(file, 0, 0, 64 * KIB);
		close_all(&fixture);
	}
}

/* The file is shorter already, the engine does not know yet: no error. */
static void a_read_within_a_truncation_ends_early(void **state)
{
	struct fixture fixture;
	struct rig_file *file = &fixture.file;
	struct change change;
	static char bytes[64 * KIB];

	open_all(&fixture, &(struct rig_setup){.has_no_readahead = true},
	         64 * KIB);
	file_change_begin(file->file, &change, 6000, FILE_TO_END);
	assert_int_equal(ftruncate(file->fd, 6000), 0);
	assert_true(rig_read(file, 0, 0, 64 * KIB, bytes) >= 6000);
	assert_memory_equal(bytes, file->model, 6000);
	file->size = 6000;
	file_change_end(file->file, &change, NULL, 6000, 0);
	rig_expect_read(file, 0, 0, 64 * KIB);
	close_all(&fixture);
}

/* Two writers of one page at a time: whoever reached the disk last is read. */
static void overlapping_changes_leave_what_the_disk_has(void **state)
{
	struct fixture fixture;
	struct rig_file *file = &fixture.file;
	struct change first;
	struct change second;
	static char bytes[2][8192];

	for (unsigned order = 0; order < 2; order++) {
		open_all(&fixture,
		         &(struct rig_setup){.has_no_readahead = true},
		         64 * KIB);
		rig_expect_read(file, 0, 0, 64 * KIB);
		rig_fill(bytes[0], 0, 8192, 1);
		rig_fill(bytes[1], 0, 8192, 2);
		file_change_begin(file->file, &first, 4096, 8192);
		file_change_begin(file->file, &second, 4096, 8192);
		assert_int_equal(pwrite(file->fd, bytes[order], 8192, 4096),
		                 8192);
		assert_int_equal(pwrite(file->fd, bytes[!order], 8192, 4096),
		                 8192);
		memcpy(file->model + 4096, bytes[!order], 8192);
		file_change_end(file->file, &first, bytes[0], 4096, 8192);
		file_change_end(file->file, &second, bytes[1], 4096, 8192);
		rig_expect_read(file, 0, 0, 64 * KIB);
		close_all(&fixture);
	}
}

/* A page waits for an I/O, a write takes it out of the file, and a read claims
 * its place again: two claims of the same place. */
static void a_place_is_claimed_twice(void **state)
{
	struct fixture fixture;
	struct rig_file *file = &fixture.file;
	struct rig_read first;
	struct rig_read second;
	struct rig_read third;

	/* One I/O a lane, and that one is held. */
	open_all(&fixture,
	         &(struct rig_setup){.has_no_readahead = true,
	                             .io_concurrency = 1},
	         MIB);
	hold(&fixture, 1);
	rig_read_start(&first, file, 0, 512 * KIB, 4096);
	fault_await_held(&fixture.fault, 1);
	rig_read_start(&second, file, 0, 0, 64 * KIB);
	/* It has claimed its pages when a read after it is answered. */
	assert_int_equal(rig_read(file, 0, 2 * MIB, 1, NULL), 0);
	rig_write(file, 5000, 10, 3);
	rig_read_start(&third, file, 0, 0, 64 * KIB);
	assert_int_equal(rig_read(file, 0, 2 * MIB, 1, NULL), 0);
	fault_release(&fixture.fault);
	assert_int_equal(rig_read_wait(&first, NULL), 4096);
	assert_int_equal(rig_read_wait(&second, NULL), 64 * KIB);
	assert_int_equal(rig_read_wait(&third, NULL), 64 * KIB);
	rig_expect_read(file, 0, 0, 64 * KIB);
	close_all(&fixture);
}

/* More is asked for than a lane may have claimed: the rest waits its turn. */
static void more_reads_than_claims(void **state)
{
	enum { READS = 80 };
	struct fixture fixture;
	struct rig_file *file = &fixture.file;
	struct rig_read *reads = calloc(READS, sizeof(*reads));

	assert_non_null(reads);
	open_all(&fixture,
	         &(struct rig_setup){.has_no_readahead = true,
	                             .has_no_sums = true,
	                             .io_concurrency = 1,
	                             .cache_pages = READS * 256 + 2000},
	         4096);
	/* A hole: it costs no disk. */
	rig_truncate(file, READS * MIB);
	hold(&fixture, 1);
	for (unsigned i = 0; i < READS; i++)
		rig_read_start(&reads[i], file, 0, i * MIB, MIB);
	fault_await_held(&fixture.fault, 1);
	assert_int_equal(rig_read(file, 0, READS * MIB, 1, NULL), 0);
	assert_true(rig_stat_of(&fixture.rig, cache_waits) > 0);
	fault_release(&fixture.fault);
	for (unsigned i = 0; i < READS; i++)
		assert_int_equal(rig_read_wait(&reads[i], NULL), MIB);
	free(reads);
	close_all(&fixture);
}

/* Everything is pinned or on its way: who needs memory waits for it. */
static void reads_wait_for_memory(void **state)
{
	struct fixture fixture;
	struct rig_file *file = &fixture.file;
	struct rig_read held[3];
	struct rig_read waiting[10];

	open_all(&fixture,
	         &(struct rig_setup){.has_no_readahead = true,
	                             .cache_pages = 64},
	         2 * MIB);
	for (unsigned round = 0; round < 20; round++) {
		hold(&fixture, FAULT_FOR_EVER);
		for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
			rig_read_start(&held[i], file, i, i * 64 * KIB,
			               60 * KIB);
		fault_await_held(&fixture.fault, 3);
		for (unsigned i = 0; i < ARRAY_SIZE(waiting); i++)
			rig_read_start(&waiting[i], file, i, MIB + i * 64 * KIB,
			               60 * KIB);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(rig_read(file, i, 3 * MIB, 1, NULL),
			                 0);
		fault_release(&fixture.fault);
		for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
			assert_int_equal(rig_read_wait(&held[i], NULL),
			                 60 * KIB);
		for (unsigned i = 0; i < ARRAY_SIZE(waiting); i++)
			assert_int_equal(rig_read_wait(&waiting[i], NULL),
			                 60 * KIB);
		rig_quiesce(&fixture.rig);
		file_drop(file->file);
	}
	assert_true(rig_stat_of(&fixture.rig, cache_waits) > 0);
	close_all(&fixture);
}

/* The last user is gone while readahead still needs the file. */
static void a_file_closes_under_its_readahead(void **state)
{
	struct fixture fixture;
	struct rig_file *file = &fixture.file;

	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		open_all(&fixture, &(struct rig_setup){.method = methods[m]},
		         MIB);
		fault_set(&fixture.fault, &(struct fault_rule){
						  .kind = FAULT_HOLD,
						  .times = FAULT_FOR_EVER,
						  .is_one_page = true,
						  .page_index = 128,
					  });
		for (uint64_t at = 0; at < 256 * KIB; at += 64 * KIB)
			rig_expect_read(file, 0, at, 64 * KIB);
		fault_await_held(&fixture.fault, 1);
		rig_file_close(file);
		fault_release(&fixture.fault);
		rig_quiesce(&fixture.rig);
		fault_remove(&fixture.fault, fixture.rig.engine);
		rig_close(&fixture.rig);
	}
}

/* Held I/Os are shown to who asks. */
static void held_ios_are_shown(void **state)
{
	struct fixture fixture;
	struct rig_read held;
	char text[4096] = {0};
	FILE *stream = fmemopen(text, sizeof(text), "w");

	assert_non_null(stream);
	open_all(&fixture, &(struct rig_setup){.has_no_readahead = true}, MIB);
	hold(&fixture, FAULT_FOR_EVER);
	rig_read_start(&held, &fixture.file, 0, 8192, 12288);
	fault_await_held(&fixture.fault, 1);
	engine_print_inflight(fixture.rig.engine, stream);
	fclose(stream);
	assert_non_null(strstr(text, " submitted read demand 8192 12288 "));
	fault_release(&fixture.fault);
	assert_int_equal(rig_read_wait(&held, NULL), 12288);
	close_all(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cached_reads_do_not_wait),
		cmocka_unit_test(readers_join_a_held_io),
		cmocka_unit_test(joiners_share_an_error),
		cmocka_unit_test(a_change_beats_a_held_fill),
		cmocka_unit_test(a_fill_within_a_change_is_not_kept),
		cmocka_unit_test(a_read_within_a_truncation_ends_early),
		cmocka_unit_test(overlapping_changes_leave_what_the_disk_has),
		cmocka_unit_test(a_place_is_claimed_twice),
		cmocka_unit_test(more_reads_than_claims),
		cmocka_unit_test(reads_wait_for_memory),
		cmocka_unit_test(a_file_closes_under_its_readahead),
		cmocka_unit_test(held_ios_are_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
