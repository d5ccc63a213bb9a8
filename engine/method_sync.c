/*
 * method_sync.c - the lane reads by itself and waits
 *
 * The smallest method: for comparison, and where threads are not to be had.
 */
#include "engine/cleanup.h"
#include "engine/io.h"

#include <stddef.h>

static void sync_done(struct task *task)
{
	struct io *io = container_of(task, struct io, task);

	io_complete(io, io->result);
}

/* The completion comes through the loop like any other, so that submitting
 * never completes anything on the spot. */
static void sync_submit(struct io *io)
{
	io->result = io_perform(io);
	io->task.run = sync_done;
	lane_post(io->lane, &io->task);
}

const struct io_method method_sync = {
	.name = "sync",
	.count = STAT_io_method_sync,
	.submit = sync_submit,
};
