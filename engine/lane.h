/*
 * lane.h - one pinned thread, one ring, one loop
 *
 * Every CPU has a lane.  A lane receives requests, starts disk reads, takes
 * their completions and answers, all in one loop with one io_uring_enter() a
 * round.  It never blocks: a call that may block is a task for one of the
 * lane's workers, threads bound to the same CPU, because waking a thread on
 * another, idle CPU costs more than a whole cache hit.
 *
 * A task is a function with its arguments around it (container_of), owned by
 * whoever runs it next.  Tasks travel both ways: lane_work() from a lane to a
 * worker, lane_post() from any thread to a lane.
 *
 *	lane_work(lane, LANE_BLOCKING, &task);	run() on a worker, may block
 *	lane_post(lane, &task);			run() on the lane, must not
 */
#ifndef ENGINE_LANE_H
#define ENGINE_LANE_H

#include <stdbool.h>
#include <stddef.h>

struct engine;
struct lane;
struct stats_block;

struct task {
	struct task *next;
	void (*run)(struct task *task);
};

/* A completion of the ring: @result is what the system call would return. */
struct lane_event {
	void (*done)(struct lane_event *event, int result);
};

/* What a task may wait for decides who runs it. */
enum lane_pool {
	LANE_BLOCKING, /* SOURCE: up to 256 at a time */
	LANE_QUICK,    /* nothing: runs also when all of those hang */
	LANE_ASIDE,    /* what the blocking ones do: must not take the last of
	                  them; one at a time */
	LANE_READING,  /* the I/Os of method_worker.c */
	LANE_POOL_COUNT,
};

/* Run @task on a worker of @lane.  Any thread.  Never fails: with no worker
 * free and none to be had, the task waits for one. */
void lane_work(struct lane *lane, enum lane_pool pool, struct task *task);

/* Run @task in the loop of @lane, soon.  Any thread, @lane's own as well. */
void lane_post(struct lane *lane, struct task *task);

/*
 * Read from @fd into @buffer when there is something to read, then call
 * @event->done on this lane with the count or -errno.  Only @lane's own
 * thread.  Buffer and event stay the lane's until then.
 */
void lane_read(struct lane *lane, int fd, void *buffer, size_t length,
               struct lane_event *event);

/* End an armed lane_read(): its done() comes soon, with -ECANCELED or with what
 * it has read.  Only @lane's own thread. */
void lane_cancel(struct lane *lane, struct lane_event *event);

/* Is the calling thread the lane's own? */
bool lane_is_current(const struct lane *lane);

/* Position of the lane, from 0. */
unsigned lane_index(const struct lane *lane);

struct engine *lane_engine(const struct lane *lane);

/* The numbers that this lane counts; its workers may use it too. */
struct stats_block *lane_stats(struct lane *lane);

#endif
