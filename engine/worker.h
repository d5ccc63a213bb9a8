/*
 * worker.h - threads for calls that may block
 *
 * A pool belongs to a lane and its threads to the lane's CPU.  Threads are
 * made when a task finds none idle, up to a limit, and stay.  Each has a umask
 * and credentials of its own (unshare(CLONE_FS)), so that a task may act as
 * somebody else.
 */
#ifndef ENGINE_WORKER_H
#define ENGINE_WORKER_H

#include <stdbool.h>

#include "engine/lane.h"
#include "engine/lock.h"

struct worker_pool {
	/* Set by worker_pool_open(), never changed. */
	int cpu;
	unsigned thread_max;

	/* Protected by lock. */
	struct lock lock;
	pthread_cond_t work_arrived;
	pthread_cond_t thread_ended;
	struct task *head;
	struct task **tail;
	unsigned thread_count;
	unsigned idle_count;
	unsigned queued_count;
	bool is_closing;
};

/* Starts one thread at once, so that a task always finds somebody.  @cpu < 0:
 * not bound.  -ENOMEM, -EAGAIN. */
int worker_pool_open(struct worker_pool *pool, int cpu, unsigned thread_max);

/* Runs what is queued, then ends the threads. */
void worker_pool_close(struct worker_pool *pool);

/* Any thread.  Never fails: without a thread the task waits for one. */
void worker_pool_run(struct worker_pool *pool, struct task *task);

/* Nothing is queued or running at this instant. */
bool worker_pool_is_idle(struct worker_pool *pool);

/* Bind the calling thread; best effort.  @cpu < 0 does nothing. */
void worker_bind(int cpu);

#endif
