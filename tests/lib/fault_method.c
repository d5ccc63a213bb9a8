#include "tests/lib/fault_method.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backing.h"
#include "engine/cleanup.h"
#include "engine/core.h"
#include "tests/lib/rig.h"

enum {
	/* What a broken device leaves in memory. */
	DESTROYED = 0xdb,

	/* Rounds that a delayed answer waits, at most. */
	DELAY_ROUNDS_MAX = 4,

	/* FAULT_RANDOM spoils one I/O in so many. */
	RANDOM_SHARE = 8,
};

void __real_io_complete(struct io *io, int result);
void __wrap_io_complete(struct io *io, int result);

/* An answer on its way, later. */
struct fault_held {
	struct task task;
	struct fault_held *next;
	struct io *io;
	int result;
	unsigned rounds;
};

static void fault_submit(struct io *io)
{
	struct fault *fault =
		container_of(io->lane->engine->method, struct fault, method);

	fault->inner->submit(io);
}

void fault_install(struct fault *fault, struct engine *engine)
{
	*fault = (struct fault){
		.inner = engine->method,
		.method = *engine->method,
		.random = 1,
	};
	fault->method.submit = fault_submit;
	pthread_mutex_init(&fault->mutex, NULL);
	pthread_cond_init(&fault->changed, NULL);
	engine->method = &fault->method;
}

void fault_remove(struct fault *fault, struct engine *engine)
{
	assert(!fault->held);
	engine->method = fault->inner;
	pthread_cond_destroy(&fault->changed);
	pthread_mutex_destroy(&fault->mutex);
}

void fault_set(struct fault *fault, const struct fault_rule *rule)
{
	pthread_mutex_lock(&fault->mutex);
	fault->rule = *rule;
	fault->seen = 0;
	fault->met = 0;
	pthread_mutex_unlock(&fault->mutex);
}

uint32_t fault_met(struct fault *fault)
{
	pthread_mutex_lock(&fault->mutex);
	uint32_t met = fault->met;

	pthread_mutex_unlock(&fault->mutex);
	return met;
}

void fault_await_held(struct fault *fault, size_t count)
{
	pthread_mutex_lock(&fault->mutex);
	while (fault->held_count < count)
		pthread_cond_wait(&fault->changed, &fault->mutex);
	pthread_mutex_unlock(&fault->mutex);
}

static void fault_answer(struct task *task)
{
	struct fault_held *held = container_of(task, struct fault_held, task);
	struct io *io = held->io;

	if (held->rounds-- > 0) {
		lane_post(io->lane, &held->task);
		return;
	}
	int result = held->result;

	free(held);
	__real_io_complete(io, result);
}

static struct fault_held *fault_held_new(struct io *io, int result,
                                         unsigned rounds)
{
	struct fault_held *held = calloc(1, sizeof(*held));

	assert(held);
	held->task.run = fault_answer;
	held->io = io;
	held->result = result;
	held->rounds = rounds;
	return held;
}

void fault_release(struct fault *fault)
{
	pthread_mutex_lock(&fault->mutex);
	struct fault_held *held = fault->held;

	fault->held = NULL;
	fault->held_count = 0;
	fault->rule.kind = FAULT_NONE;
	pthread_mutex_unlock(&fault->mutex);
	while (held) {
		/* Once posted it is gone. */
		struct fault_held *next = held->next;

		lane_post(held->io->lane, &held->task);
		held = next;
	}
}

/* The byte @at of what the I/O still misses. */
static unsigned char *io_byte(struct io *io, size_t at)
{
	for (size_t i = 0; i < io->vector_count; i++) {
		if (at < io->vector[i].iov_len)
			return (unsigned char *)io->vector[i].iov_base + at;
		at -= io->vector[i].iov_len;
	}
	return NULL;
}

static void io_destroy(struct io *io, size_t from)
{
	unsigned char *byte;

	while ((byte = io_byte(io, from++)))
		*byte = DESTROYED;
}

static bool rule_is_about(const struct fault_rule *rule, const struct io *io)
{
	uint64_t first = page_of(io->offset + io->progress);
	uint64_t last = page_of(io->offset + io->length - 1);

	if (rule->kind == FAULT_NONE)
		return false;
	if (rule->file && rule->file != io->file)
		return false;
	return !rule->is_one_page ||
	       (rule->page_index >= first && rule->page_index <= last);
}

static void fault_flip(const struct fault_rule *rule, struct io *io)
{
	uint64_t start = rule->page_index << PAGE_SHIFT;
	uint64_t now = io->offset + io->progress;
	size_t at = rule->is_one_page && start > now ? start - now : 0;
	unsigned char *byte = io_byte(io, at + rule->keep);

	assert(byte);
	*byte ^= 0x10;
}

static int fault_shorten(struct io *io, int result, size_t keep)
{
	if (result <= 0 || (size_t)result <= keep)
		return result;
	io_destroy(io, keep);
	return (int)keep;
}

static struct fault_rule fault_any(struct fault *fault, int result)
{
	struct fault_rule rule = {.kind = FAULT_NONE};
	static const int errors[] = {-EIO, -EAGAIN, -EINTR, -ENOMEM};

	if (rig_below(&fault->random, RANDOM_SHARE) > 0)
		return rule;
	switch (rig_below(&fault->random, 3)) {
	case 0:
		rule.kind = FAULT_ERROR;
		rule.error = errors[rig_below(&fault->random, 4)];
		break;
	case 1:
		rule.kind = FAULT_SHORT;
		if (result > 1)
			rule.keep = 1 + rig_below(&fault->random,
			                          (uint64_t)result - 1);
		else
			rule.keep = 1;
		break;
	default:
		rule.kind = FAULT_DELAY;
	}
	return rule;
}

/* The rule for this I/O, if it is hit. */
static struct fault_rule fault_choose(struct fault *fault, struct io *io,
                                      int result)
{
	struct fault_rule *rule = &fault->rule;

	if (!rule_is_about(rule, io) || fault->seen++ < rule->pass ||
	    fault->met >= rule->times)
		return (struct fault_rule){.kind = FAULT_NONE};
	fault->met++;
	return rule->kind == FAULT_RANDOM ? fault_any(fault, result) : *rule;
}

static void fault_hold(struct fault *fault, struct io *io, int result)
{
	struct fault_held *held = fault_held_new(io, result, 0);

	held->next = fault->held;
	fault->held = held;
	fault->held_count++;
	pthread_cond_broadcast(&fault->changed);
}

static void fault_delay(struct io *io, int result, unsigned rounds)
{
	struct fault_held *held = fault_held_new(io, result, rounds);

	lane_post(io->lane, &held->task);
}

/* The spoiled result; *@ret_is_late: the answer comes by itself. */
static int fault_apply(struct fault *fault, struct io *io, int result,
                       bool *ret_is_late)
{
	pthread_mutex_lock(&fault->mutex);
	struct fault_rule rule = fault_choose(fault, io, result);
	unsigned rounds = (unsigned)rig_below(&fault->random, DELAY_ROUNDS_MAX);

	*ret_is_late = rule.kind == FAULT_HOLD || rule.kind == FAULT_DELAY;
	if (rule.kind == FAULT_HOLD)
		fault_hold(fault, io, result);
	pthread_mutex_unlock(&fault->mutex);

	switch (rule.kind) {
	case FAULT_ERROR:
		io_destroy(io, 0);
		return rule.error;
	case FAULT_SHORT:
		return fault_shorten(io, result, rule.keep);
	case FAULT_FLIP:
		fault_flip(&rule, io);
		return result;
	case FAULT_DELAY:
		fault_delay(io, result, rounds);
		return result;
	default:
		return result;
	}
}

void __wrap_io_complete(struct io *io, int result)
{
	const struct io_method *method = io->lane->engine->method;
	bool is_late = false;

	if (method->submit == fault_submit)
		result = fault_apply(container_of(method, struct fault, method),
		                     io, result, &is_late);
	if (!is_late)
		__real_io_complete(io, result);
}
