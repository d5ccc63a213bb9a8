/*
 * fault_method.h - a method of I/O that goes wrong to order
 *
 * Wraps the method of an engine: the I/O is performed as always, and what comes
 * of it is spoiled before the engine sees it.  After an error, and after the
 * end of a short read, the buffer is destroyed: nobody promised its contents.
 *
 * One rule is in force at a time.  It says which I/Os it is about, how many of
 * them pass first, how many are hit, and what happens to those.
 *
 *	fault_install(&fault, engine);		before the first read
 *	fault_set(&fault, &(struct fault_rule){
 *		.kind = FAULT_ERROR, .pass = 3, .times = 1, .error = -EIO});
 *	...reads...
 *	if (fault_met(&fault) == 0) ...the fourth I/O was never made...
 *	fault_remove(&fault);
 *
 * The program is linked with --wrap=io_complete.
 */
#ifndef TESTS_LIB_FAULT_METHOD_H
#define TESTS_LIB_FAULT_METHOD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/io.h"

struct engine;
struct file;

enum fault_kind {
	FAULT_NONE,
	FAULT_ERROR,  /* @error instead of bytes */
	FAULT_SHORT,  /* at most @keep bytes arrive */
	FAULT_FLIP,   /* a bit is wrong, in page @page_index if @is_one_page */
	FAULT_HOLD,   /* the answer waits for fault_release() */
	FAULT_DELAY,  /* the answer comes some rounds of the lane later */
	FAULT_RANDOM, /* any of the others but HOLD and FLIP, or none */
};

#define FAULT_FOR_EVER UINT32_MAX

struct fault_rule {
	enum fault_kind kind;
	uint32_t pass;
	uint32_t times;
	int error;
	size_t keep;

	/* Which I/Os; default all. */
	const struct file *file;
	bool is_one_page; /* only those that cover ... */
	uint64_t page_index;
};

struct fault_held;

struct fault {
	struct io_method method; /* first: what the engine calls */
	const struct io_method *inner;

	/* Protected by mutex. */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct fault_rule rule;
	uint32_t seen; /* I/Os that the rule is about */
	uint32_t met;  /* those that were hit */
	uint64_t random;
	struct fault_held *held;
	size_t held_count;
};

void fault_install(struct fault *fault, struct engine *engine);

/* Nothing is held and nothing in flight. */
void fault_remove(struct fault *fault, struct engine *engine);

void fault_set(struct fault *fault, const struct fault_rule *rule);

/* I/Os that were hit since fault_set(). */
uint32_t fault_met(struct fault *fault);

/* Wait until @count I/Os are held. */
void fault_await_held(struct fault *fault, size_t count);

/* Answer all that is held, and hold no more. */
void fault_release(struct fault *fault);

#endif
