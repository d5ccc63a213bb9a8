/*
 * core.h - struct engine and struct lane, for the engine's own files
 */
#ifndef ENGINE_CORE_H
#define ENGINE_CORE_H

#include <liburing.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include "engine/cache.h"
#include "engine/checksum.h"
#include "engine/engine.h"
#include "engine/fill.h"
#include "engine/io.h"
#include "engine/lane.h"
#include "engine/lock.h"
#include "engine/worker.h"

struct lane {
	/* Set by lane_open(), never changed. */
	struct engine *engine;
	unsigned index;
	int cpu;
	int wake_fd; /* an eventfd: there are posted tasks */
	pthread_t thread;

	/* Guarded by itself. */
	struct stats_block stats;
	struct worker_pool pools[LANE_POOL_COUNT];

	/* Atomic: any thread pushes (release), the lane takes all (acquire). */
	_Atomic(struct task *) posted;

	/* Touched by the lane's own thread only. */
	struct io_uring ring;
	struct io_table ios;
	struct fill fill;
	struct task *local_head; /* posted by the lane itself */
	struct task **local_tail;
	struct read *hungry_head; /* reads that wait for free pages */
	struct read **hungry_tail;
	struct lane_event wake_event;
	struct lane_event ignored_event; /* of entries nobody waits for */
	uint64_t wake_count;             /* what reading wake_fd gave */
	bool is_stopping;
	int open_error;
	sem_t opened;

	/* Runs on the lane when pages became free. */
	struct task feed_task;
	atomic_bool is_feed_posted;
};

struct engine {
	/* Set by engine_open(), never changed. */
	struct options *options;
	const struct io_method *method;
	engine_observer *changed; /* may be NULL */
	void *changed_context;
	struct cache cache;
	struct sums sums;
	bool has_memory;          /* cache and sums are open */
	size_t cache_max_bytes;   /* address space reserved for the cache */
	struct stats_block stats; /* guarded by itself */
	struct lane *lanes;
	unsigned lane_count;

	/* Atomic, relaxed: pages that one file may have ahead; follows
	 * cache_size. */
	_Atomic(uint64_t) readahead_share_pages;

	/* Relaxed: readahead I/Os in flight on all lanes; a bound, and nothing
	 * is ordered by it. */
	_Atomic(unsigned) readahead_in_flight;

	/* Protected by files_lock: all known files, by key. */
	struct lock files_lock;
	struct file **file_buckets;
	size_t file_bucket_count;
	size_t file_count;
};

int lane_open(struct lane *lane, struct engine *engine, unsigned index,
              int cpu);
/* Nothing is in flight and nobody posts any more. */
void lane_close(struct lane *lane);

/* Whoever waits for free pages may try again. */
void engine_feed(struct engine *engine);

/* Has a worker of the lane anything to do? */
bool lane_is_working(struct lane *lane);

/* An entry of the lane's ring; never NULL: a full queue is flushed first. */
struct io_uring_sqe *lane_entry(struct lane *lane);

#endif
