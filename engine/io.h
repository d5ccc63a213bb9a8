/*
 * io.h - one I/O, and the interface of the methods that perform it
 *
 * I/Os are preallocated per lane.  io_submit() cannot fail: an I/O that cannot
 * start completes with the error.  A method calls io_complete() on the I/O's
 * lane, never from inside submit, with what the system call would return; a
 * short or interrupted read goes on by itself, and done() runs when there is
 * nothing more to read: bytes up to the end of file, or -errno for what
 * follows the bytes that were read.
 *
 *	io = io_take(lane);		NULL: io_max_concurrency is reached
 *	io->file, offset, pages, page_count, class = ...
 *	io_submit(io);
 *	... io->done(io) on the same lane ...
 *	io_give(io);
 */
#ifndef ENGINE_IO_H
#define ENGINE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "engine/lane.h"
#include "engine/page.h"
#include "engine/stats.h"

struct file;
struct io;

enum {
	/* io_max_combine_limit is at most 1 MiB. */
	IO_PAGES_MAX = 256,
};

enum io_class { IO_DEMAND, IO_READAHEAD };

enum io_state { IO_IDLE, IO_SUBMITTED, IO_COMPLETED };

struct io_method {
	const char *name;
	enum stat_id count;

	/* Start reading io->vectors at io->offset + io->progress. */
	void (*submit)(struct io *io);
};

/* What other threads may see of an I/O: written by its lane, relaxed, between
 * two increments of the generation; odd while it changes (a sequence lock). */
struct io_view {
	_Atomic(uint64_t) generation;
	_Atomic(uint64_t) inode;
	_Atomic(uint64_t) offset;
	_Atomic(uint64_t) length;
	_Atomic(uint64_t) started_ns;
	_Atomic(int64_t) result;
	_Atomic(uint8_t) state;
	_Atomic(uint8_t) class;
};

struct io {
	/* Set by io_table_open(), never changed. */
	struct lane *lane;
	unsigned id;

	/* Set by the caller between io_take() and io_submit(). */
	struct file *file;
	void (*done)(struct io *io);
	uint64_t offset;
	enum io_class class;
	size_t page_count;
	struct page *pages[IO_PAGES_MAX];

	/* Valid in done(): bytes read, and why not all: 0 means the end of the
	 * file. */
	size_t progress;
	int error;

	/* The rest is io.c's and the method's. */
	size_t length;
	uint64_t change_count; /* of the file at submit */
	size_t expected; /* bytes up to the end of file as known at submit */
	size_t last_end; /* where the read before this one ended */
	uint64_t started_ns;
	unsigned attempts;
	struct lane_event event;
	struct task task;
	int result;
	bool is_direct;
	size_t vector_count;
	struct iovec *vector; /* the first one not full yet */
	struct iovec vectors[IO_PAGES_MAX];
	struct io *next_free;
	struct io_view view;
};

struct io_table {
	struct io *ios;
	unsigned count;
	unsigned in_flight;
	struct io *free;
};

int io_table_open(struct io_table *table, struct lane *lane, unsigned count);
void io_table_close(struct io_table *table);

/* On the lane's own thread.  NULL: all are in flight. */
struct io *io_take(struct lane *lane);
void io_give(struct io *io);
void io_submit(struct io *io);

/* The method's answer, on the I/O's lane: bytes or -errno. */
void io_complete(struct io *io, int result);

/* The methods. */
extern const struct io_method method_uring;
extern const struct io_method method_worker;
extern const struct io_method method_sync;

/* For methods without a ring: preadv(2) of what is missing, bytes or -errno. */
int io_perform(struct io *io);

#endif
