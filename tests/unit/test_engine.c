/*
 * A read gives exactly what the file holds, at every offset, with every method,
 * whatever was written, cut off or changed behind the engine before; every page
 * asked for is counted once; and when all is done nothing is pinned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/backing.h"
#include "engine/cleanup.h"
#include "tests/lib/rig.h"

#define KIB 1024UL
#define MIB (1024 * KIB)

static const enum choice_io_method methods[] = {
	IO_METHOD_URING,
	IO_METHOD_WORKER,
	IO_METHOD_SYNC,
};

/* Offsets around the borders of pages, of the file and of requests. */
static void read_around(struct rig_file *file, uint64_t border)
{
	static const size_t lengths[] = {0, 1, 2, 4095, 4096, 4097, 70000};

	for (int64_t shift = -2; shift <= 2; shift++) {
		if (shift < 0 && border < (uint64_t)-shift)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
			rig_expect_read(file, (unsigned)i, border + shift,
			                lengths[i]);
	}
}

static void bytes_are_right_everywhere(void **state)
{
	static const size_t sizes[] = {
		0,
		1,
		511,
		512,
		4095,
		4096,
		4097,
		8192,
		64 * 4096,
		64 * 4096 + 1,
		2 * MIB + 12345,
	};

	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		struct rig rig;

		rig_open(&rig, &(struct rig_setup){.method = methods[m]});
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct rig_file file;

			rig_file_open(&rig, &file, "a", sizes[i]);
			read_around(&file, sizes[i]);
			read_around(&file, 0);
			read_around(&file, 4096);
			read_around(&file, sizes[i] / 2);
			rig_expect_read(&file, 0, 0, READ_BYTES_MAX);
			rig_expect_read(&file, 1, 1, READ_BYTES_MAX);
			rig_expect_read(&file, 1, 4095, READ_BYTES_MAX);
			read_around(&file, sizes[i] + 10 * MIB);
			rig_file_close(&file);
		}
		assert_int_equal(rig_stat_of(&rig, io_errors), 0);
		rig_close(&rig);
	}
}

static void huge_offsets_are_past_the_end(void **state)
{
	static const uint64_t offsets[] = {
		1ULL << 40,
		INT64_MAX - READ_BYTES_MAX,
		INT64_MAX,
		UINT64_MAX,
	};
	struct rig rig;
	struct rig_file file;

	rig_open(&rig, &(struct rig_setup){.cache_pages = 600});
	rig_file_open(&rig, &file, "a", 10000);
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++)
		assert_int_equal(rig_read(&file, 0, offsets[i], 4096, NULL), 0);
	rig_file_close(&file);
	rig_close(&rig);
}

/* The method that was asked for is the one that reads. */
static void each_method_serves_its_reads(void **state)
{
	static const enum stat_id counts[] = {
		STAT_io_method_uring,
		STAT_io_method_worker,
		STAT_io_method_sync,
	};

	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		struct rig rig;
		struct rig_file file;

		rig_open(&rig, &(struct rig_setup){.method = methods[m]});
		rig_file_open(&rig, &file, "a", 3 * MIB);
		for (uint64_t at = 0; at < 3 * MIB; at += 128 * KIB)
			rig_expect_read(&file, 0, at, 128 * KIB);
		rig_quiesce(&rig);
		for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
			assert_int_equal(rig_stat(&rig, counts[i]),
			                 i == m ? rig_stat_of(&rig, ios) : 0);
		rig_file_close(&file);
		rig_close(&rig);
	}
}

static void every_page_asked_for_is_counted_once(void **state)
{
	struct rig rig;
	struct rig_file file;
	uint64_t seed = 3;
	uint64_t pages = 0;
	uint64_t bytes = 0;

	rig_open(&rig, &(struct rig_setup){.cache_pages = 700});
	rig_file_open(&rig, &file, "a", 8 * MIB);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t offset = rig_below(&seed, 8 * MIB);
		size_t length = 1 + rig_below(&seed, 100 * KIB);

		if (length > 8 * MIB - offset)
			length = 8 * MIB - offset;
		rig_expect_read(&file, i, offset, length);
		bytes += length;
		pages += page_of(offset + length - 1) - page_of(offset) + 1;
	}
	rig_quiesce(&rig);
	assert_int_equal(rig_stat_of(&rig, reads), 1000);
	assert_int_equal(rig_stat_of(&rig, read_bytes), bytes);
	assert_int_equal(rig_stat_of(&rig, cache_hits) +
	                         rig_stat_of(&rig, cache_misses) +
	                         rig_stat_of(&rig, cache_joins),
	                 pages);
	assert_int_equal(rig_stat_of(&rig, cache_misses) +
	                         rig_stat_of(&rig, readahead_pages),
	                 rig_stat_of(&rig, io_pages));
	rig_file_close(&file);
	rig_close(&rig);
}

static void a_second_read_needs_no_disk(void **state)
{
	struct rig rig;
	struct rig_file file;

	rig_open(&rig, &(struct rig_setup){.method = IO_METHOD_URING});
	rig_file_open(&rig, &file, "a", 2 * MIB + 100);
	for (unsigned round = 0; round < 2; round++) {
		for (uint64_t at = 0; at < 2 * MIB + 100; at += 100 * KIB)
			rig_expect_read(&file, 0, at, 100 * KIB);
		rig_quiesce(&rig);
		assert_int_equal(rig_stat_of(&rig, io_bytes), 2 * MIB + 100);
	}
	rig_file_close(&file);
	rig_close(&rig);
}

static void who_reads_in_order_is_read_ahead_for(void **state)
{
	struct rig rig;
	struct rig_file file;

	rig_open(&rig, &(struct rig_setup){.method = IO_METHOD_URING});
	rig_file_open(&rig, &file, "a", 16 * MIB);
	for (uint64_t at = 0; at < 16 * MIB; at += 64 * KIB)
		rig_expect_read(&file, 0, at, 64 * KIB);
	rig_quiesce(&rig);
	assert_true(rig_stat_of(&rig, readahead_pages) > 3500);
	assert_int_equal(rig_stat_of(&rig, readahead_used),
	                 rig_stat_of(&rig, readahead_pages));
	assert_true(rig_stat_of(&rig, ios) < 100);
	assert_int_equal(rig_stat_of(&rig, io_bytes), 16 * MIB);
	rig_file_close(&file);
	rig_close(&rig);
}

/* Written over, cut, punched and grown at random, with the bytes checked after
 * every step. */
static void change_at_random(struct rig_file *file, uint64_t *seed)
{
	uint64_t offset = rig_below(seed, file->size + 20000);
	size_t length =
		1 + rig_below(seed, rig_random(seed) % 4 ? 9000 : 90000);

	switch (rig_below(seed, 8)) {
	case 0:
		rig_truncate(file, rig_below(seed, 300000));
		break;
	case 1:
		if (offset + length <= file->size)
			rig_punch(file, offset, length);
		break;
	case 2:
		/* Whole pages. */
		rig_write(file, offset & ~4095ULL, (length | 4095) + 1,
		          rig_random(seed));
		break;
	case 3:
		rig_write(file, file->size, length % 5000 + 1,
		          rig_random(seed));
		break;
	default:
		rig_write(file, offset, length, rig_random(seed));
	}
}

static void changes_are_seen_by_the_next_read(void **state)
{
	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		struct rig rig;
		struct rig_file file;
		uint64_t seed = m;

		rig_open(&rig, &(struct rig_setup){.method = methods[m],
		                                   .cache_pages = 900});
		rig_file_open(&rig, &file, "a", 200000);
		for (unsigned i = 0; i < 300; i++) {
			change_at_random(&file, &seed);
			for (unsigned k = 0; k < 3; k++)
				rig_expect_read(
					&file, k,
					rig_below(&seed, file.size + 1000),
					rig_below(&seed, 50000));
			if (i % 10 == 0)
				rig_expect_read(&file, 0, 0, READ_BYTES_MAX);
		}
		assert_true(rig_stat_of(&rig, write_pages_kept) > 0);
		assert_int_equal(rig_stat_of(&rig, identity_changes), 0);
		assert_int_equal(rig_stat_of(&rig, checksum_mismatches), 0);
		assert_int_equal(rig_stat_of(&rig, checksum_transient), 0);
		rig_file_close(&file);
		rig_close(&rig);
	}
}

/* What was written stays in the cache: no disk is needed to read it. */
static void written_pages_stay(void **state)
{
	static const struct {
		uint64_t offset;
		size_t length;
	} rows[] = {
		{0, 4096},     {4096, 65536},     {100, 100},
		{4000, 200},   {123, 500000},     {2 * MIB, 4096},
		{2 * MIB, 10}, {2 * MIB - 5, 10},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rig rig;
		struct rig_file file;

		rig_open(&rig, &(struct rig_setup){.method = IO_METHOD_URING});
		rig_file_open(&rig, &file, "a", 2 * MIB);
		for (uint64_t at = 0; at < 2 * MIB; at += MIB)
			rig_expect_read(&file, 0, at, MIB);
		rig_quiesce(&rig);
		uint64_t ios = rig_stat_of(&rig, ios);

		rig_write(&file, rows[i].offset, rows[i].length, 5);
		for (uint64_t at = 0; at < file.size; at += MIB)
			rig_expect_read(&file, 0, at, MIB);
		assert_int_equal(rig_stat_of(&rig, ios), ios);
		rig_file_close(&file);
		rig_close(&rig);
	}
}

static void a_reader_keeps_the_old_pages(void **state)
{
	struct rig rig;
	struct rig_file file;
	static char before[READ_BYTES_MAX];
	static char now[READ_BYTES_MAX];

	rig_open(&rig, &(struct rig_setup){.method = IO_METHOD_URING});
	rig_file_open(&rig, &file, "a", MIB);
	assert_int_equal(rig_read(&file, 0, 0, MIB, before), MIB);
	/* Nothing of what a reader was given is ever written into. */
	rig_write(&file, 0, MIB, 9);
	assert_int_equal(rig_read(&file, 0, 0, MIB, now), MIB);
	assert_memory_not_equal(before, now, MIB);
	assert_memory_equal(now, file.model, MIB);
	rig_file_close(&file);
	rig_close(&rig);
}

static void a_change_behind_is_found_at_open(void **state)
{
	struct rig rig;
	struct rig_file file;

	rig_open(&rig, &(struct rig_setup){.method = IO_METHOD_URING});
	rig_file_open(&rig, &file, "a", 500000);
	for (unsigned i = 0; i < 50; i++) {
		rig_expect_read(&file, i, 0, 500000);
		rig_quiesce(&rig);
		rig_file_settle(&file);
		assert_false(rig_file_visit(&file));
		rig_write_behind(&file, i * 10000, 5000, i + 1);
		assert_true(rig_file_visit(&file));
	}
	assert_int_equal(rig_stat_of(&rig, identity_changes), 50);
	assert_int_equal(rig_stat_of(&rig, checksum_mismatches), 0);
	rig_file_close(&file);
	rig_close(&rig);
}

/* An I/O meets the change: pages from before and after are not mixed. */
static void a_change_behind_is_found_by_an_io(void **state)
{
	struct rig rig;
	struct rig_file file;

	rig_open(&rig, &(struct rig_setup){.has_no_readahead = true});
	rig_file_open(&rig, &file, "a", 400000);
	for (unsigned i = 0; i < 20; i++) {
		file_drop(file.file);
		rig_expect_read(&file, 0, 0, 100000);
		rig_file_settle(&file);
		rig_write_behind(&file, 0, 400000, i + 1);
		/* Some of these pages are cached, the others are not. */
		rig_expect_read(&file, 1, 50000, 300000);
		rig_expect_read(&file, 0, 0, 100000);
	}
	rig_file_close(&file);
	rig_close(&rig);
}

static void growth_behind_is_found_at_the_end(void **state)
{
	struct rig rig;
	struct rig_file file;

	rig_open(&rig, &(struct rig_setup){.method = IO_METHOD_URING});
	rig_file_open(&rig, &file, "a", 10000);
	rig_expect_read(&file, 0, 0, 20000);
	rig_write_behind(&file, 10000, 5000, 1);
	assert_true(rig_file_visit(&file));
	rig_expect_read(&file, 0, 0, 20000);
	assert_int_equal(ftruncate(file.fd, 100), 0);
	file.size = 100;
	/* Not cached: the I/O finds out. */
	rig_file_settle(&file);
	assert_true(rig_file_visit(&file));
	rig_expect_read(&file, 0, 0, 20000);
	rig_file_close(&file);
	rig_close(&rig);
}

/* Somebody asked for it before a write of ours, and comes with it after. */
static void an_old_stat_is_not_believed(void **state)
{
	struct rig rig;
	struct rig_file file;
	struct statx stat;

	rig_open(&rig, &(struct rig_setup){.method = IO_METHOD_URING});
	rig_file_open(&rig, &file, "a", 10000);
	rig_expect_read(&file, 0, 0, 20000);
	assert_int_equal(
		statx(file.fd, "", AT_EMPTY_PATH, IDENTITY_MASK, &stat), 0);
	rig_write(&file, 10000, 5000, 1);
	assert_false(file_check(file.file, &stat));
	rig_expect_read(&file, 0, 0, 20000);
	assert_int_equal(rig_stat_of(&rig, identity_changes), 0);
	rig_file_close(&file);
	rig_close(&rig);
}

static void pages_outlive_a_close(void **state)
{
	struct rig rig;
	struct rig_file file;

	rig_open(&rig, &(struct rig_setup){.method = IO_METHOD_URING});
	rig_file_open(&rig, &file, "a", 100000);
	rig_expect_read(&file, 0, 0, 100000);
	rig_quiesce(&rig);
	rig_file_settle(&file);
	assert_int_equal(rig_stat_of(&rig, cache_pages), 25);
	rig_file_close(&file);
	assert_int_equal(rig_stat_of(&rig, cache_pages), 25);
	rig_close(&rig);
}

struct reader {
	pthread_t thread;
	struct rig_file *file;
	uint64_t seed;
	unsigned lane;
	unsigned failures;
	bool is_sequential;
};

static void *reader_main(void *argument)
{
	enum { LENGTH_MAX = 60000 };
	struct reader *reader = argument;
	const struct rig_file *file = reader->file;
	char bytes[LENGTH_MAX];
	uint64_t at = 0;

	for (unsigned i = 0; i < 400; i++) {
		size_t length = 1 + rig_below(&reader->seed, LENGTH_MAX);

		if (!reader->is_sequential || at >= file->size)
			at = rig_below(&reader->seed, file->size);
		if (length > file->size - at)
			length = file->size - at;
		ssize_t n =
			rig_read(reader->file, reader->lane, at, length, bytes);

		reader->failures += n != (ssize_t)length ||
		                    memcmp(bytes, file->model + at, length);
		at += length;
	}
	return NULL;
}

/* More readers than lanes, more data than cache. */
static void readers_share(const struct rig_setup *setup)
{
	struct rig rig;
	struct rig_file file;
	struct reader readers[8];

	rig_open(&rig, setup);
	rig_file_open(&rig, &file, "a", 6 * MIB + 777);
	for (unsigned i = 0; i < ARRAY_SIZE(readers); i++) {
		readers[i] = (struct reader){
			.file = &file,
			.seed = i,
			.lane = i,
			.is_sequential = i % 2,
		};
		pthread_create(&readers[i].thread, NULL, reader_main,
		               &readers[i]);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(readers); i++) {
		pthread_join(readers[i].thread, NULL);
		assert_int_equal(readers[i].failures, 0);
	}
	rig_quiesce(&rig);
	assert_int_equal(rig_stat_of(&rig, checksum_mismatches), 0);
	assert_int_equal(rig_stat_of(&rig, io_errors), 0);
	rig_file_close(&file);
	rig_close(&rig);
}

static void many_readers_agree(void **state)
{
	for (size_t m = 0; m < ARRAY_SIZE(methods); m++) {
		readers_share(&(struct rig_setup){.method = methods[m]});
		/* They evict each other's pages, and wait for memory. */
		readers_share(&(struct rig_setup){.method = methods[m],
		                                  .cache_pages = 64});
		readers_share(&(struct rig_setup){.method = methods[m],
		                                  .cache_pages = 200,
		                                  .io_concurrency = 2,
		                                  .combine_bytes = 8192});
	}
}

static void the_cache_follows_its_option(void **state)
{
	static const size_t pages[] = {100, 2000, 40, 500};
	struct rig rig;
	struct rig_file file;

	rig_open(&rig, &(struct rig_setup){.cache_pages = 1000});
	rig_file_open(&rig, &file, "a", 6 * MIB);
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		int64_t bytes = (int64_t)(pages[i] * CACHE_PAGE_COST);

		atomic_store(&rig.options.cache_size, bytes);
		engine_apply_options(rig.engine);
		for (uint64_t at = 0; at < 6 * MIB; at += 64 * KIB) {
			rig_expect_read(&file, 0, at, 64 * KIB);
			assert_true(rig_stat_of(&rig, cache_bytes) <=
			            (uint64_t)bytes);
		}
		assert_true(rig_stat_of(&rig, cache_pages) >
		            (pages[i] < 1500 ? pages[i] / 2 : 1000));
	}
	rig_file_close(&file);
	rig_close(&rig);
}

static void files_are_told_apart(void **state)
{
	struct rig rig;
	struct rig_file files[20];
	char name[16];

	rig_open(&rig, &(struct rig_setup){.method = IO_METHOD_URING});
	for (unsigned i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(name, sizeof(name), "file%u", i);
		rig_file_open(&rig, &files[i], name, 50000);
		rig_write(&files[i], 0, 50000, 100 + i);
	}
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < ARRAY_SIZE(files); i++)
			rig_expect_read(&files[i], i, 0, 60000);
	for (unsigned i = 0; i < ARRAY_SIZE(files); i++)
		rig_file_close(&files[i]);
	rig_close(&rig);
}

static void buffered_reads_work_as_well(void **state)
{
	struct rig rig;
	struct rig_file file;

	rig_open(&rig, &(struct rig_setup){.direct = CHOICE_OFF});
	rig_file_open(&rig, &file, "a", 100001);
	rig_expect_read(&file, 0, 0, 200000);
	rig_quiesce(&rig);
	assert_int_equal(rig_stat_of(&rig, direct_ios), 0);
	assert_true(rig_stat_of(&rig, buffered_ios) > 0);
	/* What comes from the page cache of SOURCE says nothing of the disk. */
	assert_int_equal(rig_stat_of(&rig, checksum_learned), 0);
	rig_file_close(&file);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_right_everywhere),
		cmocka_unit_test(huge_offsets_are_past_the_end),
		cmocka_unit_test(each_method_serves_its_reads),
		cmocka_unit_test(every_page_asked_for_is_counted_once),
		cmocka_unit_test(a_second_read_needs_no_disk),
		cmocka_unit_test(who_reads_in_order_is_read_ahead_for),
		cmocka_unit_test(changes_are_seen_by_the_next_read),
		cmocka_unit_test(written_pages_stay),
		cmocka_unit_test(a_reader_keeps_the_old_pages),
		cmocka_unit_test(a_change_behind_is_found_at_open),
		cmocka_unit_test(a_change_behind_is_found_by_an_io),
		cmocka_unit_test(growth_behind_is_found_at_the_end),
		cmocka_unit_test(an_old_stat_is_not_believed),
		cmocka_unit_test(pages_outlive_a_close),
		cmocka_unit_test(many_readers_agree),
		cmocka_unit_test(the_cache_follows_its_option),
		cmocka_unit_test(files_are_told_apart),
		cmocka_unit_test(buffered_reads_work_as_well),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
