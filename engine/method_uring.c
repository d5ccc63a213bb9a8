/*
 * method_uring.c - the lane's own ring reads
 *
 * The entry is submitted together with everything else of the round.
 */
#include "engine/cleanup.h"
#include "engine/core.h"

#include <stddef.h>

#include "engine/backing.h"

static void uring_done(struct lane_event *event, int result)
{
	io_complete(container_of(event, struct io, event), result);
}

static void uring_submit(struct io *io)
{
	struct io_uring_sqe *entry = lane_entry(io->lane);

	io->event.done = uring_done;
	io_uring_prep_readv(entry, io->file->fd, io->vector,
	                    (unsigned)io->vector_count,
	                    io->offset + io->progress);
	io_uring_sqe_set_data(entry, &io->event);
}

const struct io_method method_uring = {
	.name = "io_uring",
	.count = STAT_io_method_uring,
	.submit = uring_submit,
};
