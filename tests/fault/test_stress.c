/*
 * Eight threads read and write one file through a cache far too small for it,
 * over a disk that fails, stops short and answers out of order, and every byte
 * that is delivered is one that stood there: what a byte of a range says is
 * never older than the last write that ended before the read began.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing.h"
#include "engine/cleanup.h"
#include "tests/lib/fault_method.h"
#include "tests/lib/rig.h"

enum {
	THREADS = 8,
	STEPS = 500,

	/* A record is written at once, by one thread, and says when: all its
	 * words are its version. */
	RECORD_BYTES = 3000,
	RECORDS_PER_THREAD = 200,
	RECORDS = THREADS * RECORDS_PER_THREAD,
	RECORD_WORDS = RECORD_BYTES / sizeof(uint32_t),

	READ_RECORDS_MAX = 20,
};

struct stress {
	struct rig rig;
	struct rig_file file;
	struct fault fault;

	/* Released when a write has ended, acquired before a read begins: the
	 * read must not be older; and raised before a write begins: nor
	 * younger. */
	_Atomic(uint32_t) ended[RECORDS];
	_Atomic(uint32_t) begun[RECORDS];
	_Atomic(unsigned) failures;

	/* Where the next append goes. */
	_Atomic(uint64_t) end;

	/* Before the threads started. */
	uint64_t identity_changes;
};

struct worker {
	pthread_t thread;
	struct stress *stress;
	unsigned number;
	uint64_t seed;
};

/* The word that stands all over version @version of a record. */
static uint32_t record_word(uint64_t record, uint32_t version)
{
	return (uint32_t)(record * 0x9E3779B1U) ^ version;
}

static void record_fill(uint32_t *words, uint64_t record, uint32_t version)
{
	for (unsigned i = 0; i < RECORD_WORDS; i++)
		words[i] = record_word(record, version);
}

static void write_records(struct worker *worker)
{
	struct stress *stress = worker->stress;
	struct file *file = stress->file.file;
	uint32_t words[3 * RECORD_WORDS];
	uint64_t count = 1 + rig_below(&worker->seed, 3);
	uint64_t first = worker->number * RECORDS_PER_THREAD +
	                 rig_below(&worker->seed, RECORDS_PER_THREAD - 3);
	struct change change;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t version =
			atomic_fetch_add(&stress->begun[first + i], 1) + 1;

		record_fill(words + i * RECORD_WORDS, first + i, version);
	}
	file_change_begin(file, &change, first * RECORD_BYTES,
	                  count * RECORD_BYTES);
	ssize_t n = pwrite(stress->file.fd, words, count * RECORD_BYTES,
	                   (off_t)(first * RECORD_BYTES));

	file_change_end(file, &change, words, first * RECORD_BYTES,
	                count * RECORD_BYTES);
	if (n != (ssize_t)(count * RECORD_BYTES))
		atomic_fetch_add(&stress->failures, 1);
	for (uint64_t i = 0; i < count; i++)
		atomic_store(&stress->ended[first + i],
		             atomic_load(&stress->begun[first + i]));
}

/* Every word is of a version that stood there while we read. */
static bool record_is_right(struct stress *stress, uint64_t record,
                            const char *bytes, uint32_t oldest)
{
	uint32_t newest = atomic_load(&stress->begun[record]);

	for (unsigned i = 0; i < RECORD_WORDS; i++) {
		uint32_t word;

		memcpy(&word, bytes + i * sizeof(word), sizeof(word));
		uint32_t version = word ^ record_word(record, 0);

		if (version < oldest || version > newest)
			return false;
	}
	return true;
}

static void read_records(struct worker *worker, bool is_exact)
{
	struct stress *stress = worker->stress;
	static __thread char bytes[READ_RECORDS_MAX * RECORD_BYTES];
	uint32_t oldest[READ_RECORDS_MAX];
	uint64_t count = 1 + rig_below(&worker->seed, READ_RECORDS_MAX);
	uint64_t first = rig_below(&worker->seed, RECORDS - count + 1);

	for (uint64_t i = 0; i < count; i++)
		oldest[i] = atomic_load(&stress->ended[first + i]);
	ssize_t n = rig_read(&stress->file, worker->number,
	                     first * RECORD_BYTES, count * RECORD_BYTES, bytes);

	if (n < 0) {
		/* Any of those that the disk gives. */
		if (is_exact)
			atomic_fetch_add(&stress->failures, 1);
		return;
	}
	if (n != (ssize_t)(count * RECORD_BYTES)) {
		atomic_fetch_add(&stress->failures, 1);
		return;
	}
	for (uint64_t i = 0; i < count; i++) {
		if (!record_is_right(stress, first + i,
		                     bytes + i * RECORD_BYTES, oldest[i]))
			atomic_fetch_add(&stress->failures, 1);
	}
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;

	for (unsigned step = 0; step < STEPS; step++) {
		switch (rig_below(&worker->seed, 10)) {
		case 0:
		case 1:
		case 2:
			write_records(worker);
			break;
		case 3:
			if (rig_below(&worker->seed, 10) == 0)
				file_drop(worker->stress->file.file);
			break;
		default:
			read_records(worker, false);
		}
	}
	return NULL;
}

/* Every record at version 0. */
static void stress_start(struct stress *stress, const struct rig_setup *setup)
{
	uint32_t words[RECORD_WORDS];

	memset(stress, 0, sizeof(*stress));
	rig_open(&stress->rig, setup);
	fault_install(&stress->fault, stress->rig.engine);
	rig_file_open(&stress->rig, &stress->file, "a", 0);
	rig_truncate(&stress->file, (size_t)RECORDS * RECORD_BYTES);
	for (uint64_t i = 0; i < RECORDS; i++) {
		record_fill(words, i, 0);
		assert_int_equal(pwrite(stress->file.fd, words, RECORD_BYTES,
		                        (off_t)(i * RECORD_BYTES)),
		                 RECORD_BYTES);
	}
	file_drop(stress->file.file);
	(void)rig_file_visit(&stress->file);
	stress->identity_changes = rig_stat_of(&stress->rig, identity_changes);
}

static void stress_end(struct stress *stress)
{
	rig_quiesce(&stress->rig);
	assert_int_equal(atomic_load(&stress->failures), 0);
	assert_int_equal(rig_stat_of(&stress->rig, checksum_mismatches), 0);
	assert_int_equal(rig_stat_of(&stress->rig, checksum_transient), 0);
	/* All that happened to the file was ours. */
	assert_int_equal(rig_stat_of(&stress->rig, identity_changes),
	                 stress->identity_changes);
	rig_file_close(&stress->file);
	fault_remove(&stress->fault, stress->rig.engine);
	rig_close(&stress->rig);
}

static void stress_run(struct stress *stress, struct worker *workers,
                       void *(*run)(void *))
{
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.stress = stress, .number = i, .seed = i + 1};
		pthread_create(&workers[i].thread, NULL, run, &workers[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	assert_int_equal(atomic_load(&stress->failures), 0);
}

static void run(const struct rig_setup *setup, enum fault_kind kind)
{
	static struct stress stress;
	struct worker workers[THREADS];

	stress_start(&stress, setup);
	fault_set(&stress.fault,
	          &(struct fault_rule){.kind = kind, .times = FAULT_FOR_EVER});
	stress_run(&stress, workers, worker_main);
	/* The disk is well again, and nothing wrong stayed. */
	fault_set(&stress.fault, &(struct fault_rule){.kind = FAULT_NONE});
	for (unsigned i = 0; i < 200; i++)
		read_records(&workers[i % THREADS], true);
	stress_end(&stress);
}

/* Append, and read at once what was acknowledged. */
static void *append_main(void *argument)
{
	struct worker *worker = argument;
	struct stress *stress = worker->stress;
	struct file *file = stress->file.file;
	char bytes[5000];
	char again[5000];

	for (unsigned i = 0; i < STEPS; i++) {
		size_t length = 1 + rig_below(&worker->seed, sizeof(bytes));
		uint64_t offset = atomic_fetch_add(&stress->end, length);
		struct change change;

		rig_fill(bytes, offset, length, worker->number);
		file_change_begin(file, &change, offset, length);
		ssize_t n =
			pwrite(stress->file.fd, bytes, length, (off_t)offset);

		file_change_end(file, &change, bytes, offset, length);
		if (n != (ssize_t)length)
			atomic_fetch_add(&stress->failures, 1);
		n = rig_read(&stress->file, i, offset, length, again);
		if (n != (ssize_t)length || memcmp(bytes, again, length) != 0)
			atomic_fetch_add(&stress->failures, 1);
	}
	return NULL;
}

static void appends_are_seen_at_once(void **state)
{
	static struct stress stress;
	struct worker workers[THREADS];

	stress_start(&stress, &(struct rig_setup){.cache_pages = 400});
	atomic_store(&stress.end, stress.file.size);
	stress_run(&stress, workers, append_main);
	stress_end(&stress);
}

static void everything_goes_wrong(void **state)
{
	run(&(struct rig_setup){.method = IO_METHOD_URING, .cache_pages = 100},
	    FAULT_RANDOM);
	run(&(struct rig_setup){.method = IO_METHOD_WORKER, .cache_pages = 100},
	    FAULT_RANDOM);
	run(&(struct rig_setup){.method = IO_METHOD_SYNC, .cache_pages = 100},
	    FAULT_RANDOM);
}

static void answers_come_late(void **state)
{
	run(&(struct rig_setup){.method = IO_METHOD_URING, .cache_pages = 300},
	    FAULT_DELAY);
	run(&(struct rig_setup){.method = IO_METHOD_WORKER,
	                        .cache_pages = 64,
	                        .io_concurrency = 2},
	    FAULT_DELAY);
}

/* All in memory: changes and readers only. */
static void nothing_goes_wrong(void **state)
{
	run(&(struct rig_setup){.method = IO_METHOD_URING}, FAULT_NONE);
	run(&(struct rig_setup){.method = IO_METHOD_WORKER, .cache_pages = 64},
	    FAULT_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(appends_are_seen_at_once),
		cmocka_unit_test(nothing_goes_wrong),
		cmocka_unit_test(answers_come_late),
		cmocka_unit_test(everything_goes_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
