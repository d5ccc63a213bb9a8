/*
 * inflight.c - show the I/Os in flight without stopping anybody
 *
 * Each I/O shows itself in a sequence lock: what was copied between two equal
 * and even generations is one consistent state.
 */
#include <stdatomic.h>

#include "engine/clock.h"
#include "engine/core.h"

enum {
	/* An I/O that changes this often while we copy is not stuck. */
	VIEW_ATTEMPTS_MAX = 100,
};

struct view_copy {
	uint64_t generation;
	uint64_t inode;
	uint64_t offset;
	uint64_t length;
	uint64_t started_ns;
	int64_t result;
	uint8_t state;
	uint8_t class;
};

#define view_get(view, field) \
	atomic_load_explicit(&(view)->field, memory_order_relaxed)

static bool view_copy(const struct io_view *view, struct view_copy *ret_copy)
{
	for (unsigned i = 0; i < VIEW_ATTEMPTS_MAX; i++) {
		/* Acquire: pairs with the release at the end of io_show(). */
		uint64_t before = atomic_load_explicit(&view->generation,
		                                       memory_order_acquire);

		*ret_copy = (struct view_copy){
			.generation = before,
			.inode = view_get(view, inode),
			.offset = view_get(view, offset),
			.length = view_get(view, length),
			.started_ns = view_get(view, started_ns),
			.result = view_get(view, result),
			.state = view_get(view, state),
			.class = view_get(view, class),
		};
		atomic_thread_fence(memory_order_acquire);
		if (before % 2 == 0 && view_get(view, generation) == before)
			return true;
	}
	return false;
}

static void print_io(FILE *stream, const struct lane *lane, const struct io *io)
{
	static const char *const states[] = {"idle", "submitted", "completed"};
	static const char *const classes[] = {"demand", "readahead"};
	struct view_copy copy;

	if (!view_copy(&io->view, &copy) || copy.state == IO_IDLE)
		return;
	uint64_t age_ns = clock_now_ns() - copy.started_ns;

	fprintf(stream, "%u.%u %llu %s read %s %llu %llu %llu %llu %lld\n",
	        lane_index(lane), io->id, (unsigned long long)copy.generation,
	        states[copy.state], classes[copy.class],
	        (unsigned long long)copy.offset,
	        (unsigned long long)copy.length,
	        (unsigned long long)age_ns / 1000,
	        (unsigned long long)copy.inode, (long long)copy.result);
}

void engine_print_inflight(struct engine *engine, FILE *stream)
{
	fprintf(stream, "id generation state operation class offset length "
	                "age_us inode result\n");
	for (unsigned i = 0; i < engine->lane_count; i++) {
		const struct lane *lane = &engine->lanes[i];

		for (unsigned k = 0; k < lane->ios.count; k++)
			print_io(stream, lane, &lane->ios.ios[k]);
	}
}
