/*
 * method_worker.c - threads of the lane read, the lane goes on
 *
 * For kernels and containers without io_uring.
 */
#include "engine/cleanup.h"
#include "engine/core.h"

#include <stddef.h>

static void worker_done(struct task *task)
{
	struct io *io = container_of(task, struct io, task);

	io_complete(io, io->result);
}

static void worker_perform(struct task *task)
{
	struct io *io = container_of(task, struct io, task);

	io->result = io_perform(io);
	io->task.run = worker_done;
	lane_post(io->lane, &io->task);
}

static void worker_submit(struct io *io)
{
	io->task.run = worker_perform;
	worker_pool_run(&io->lane->pools[LANE_READING], &io->task);
}

const struct io_method method_worker = {
	.name = "worker",
	.count = STAT_io_method_worker,
	.submit = worker_submit,
};
