#include "engine/io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "engine/backing.h"
#include "engine/clock.h"
#include "engine/core.h"

/* EINTR and EAGAIN in a row before an I/O fails with it: neither is an error of
 * the disk, and neither may keep a reader for ever. */
enum { IO_ATTEMPTS_MAX = 1000 };

int io_table_open(struct io_table *table, struct lane *lane, unsigned count)
{
	*table = (struct io_table){.count = count};
	table->ios = calloc(count, sizeof(*table->ios));
	if (!table->ios)
		return -ENOMEM;
	for (unsigned i = count; i-- > 0;) {
		struct io *io = &table->ios[i];

		io->lane = lane;
		io->id = i;
		io->next_free = table->free;
		table->free = io;
	}
	return 0;
}

void io_table_close(struct io_table *table)
{
	assert(table->in_flight == 0);
	free(table->ios);
}

struct io *io_take(struct lane *lane)
{
	assert(lane_is_current(lane));
	struct io *io = lane->ios.free;

	if (!io)
		return NULL;
	lane->ios.free = io->next_free;
	lane->ios.in_flight++;
	io->progress = 0;
	io->last_end = 0;
	io->error = 0;
	io->attempts = 0;
	return io;
}

#define view_set(io, field, value) \
	atomic_store_explicit(&(io)->view.field, value, memory_order_relaxed)

/* Show the I/O's new state to whoever prints them, see engine_print_inflight().
 */
static void io_show(struct io *io, enum io_state state, int64_t result)
{
	uint64_t generation = atomic_load_explicit(&io->view.generation,
	                                           memory_order_relaxed);

	view_set(io, generation, generation + 1);
	atomic_thread_fence(memory_order_release);
	view_set(io, state, (uint8_t)state);
	view_set(io, result, result);
	if (state == IO_SUBMITTED) {
		view_set(io, inode, io->file->key.inode);
		view_set(io, offset, io->offset);
		view_set(io, length, io->length);
		view_set(io, started_ns, io->started_ns);
		view_set(io, class, (uint8_t)io->class);
	}
	atomic_store_explicit(&io->view.generation, generation + 2,
	                      memory_order_release);
}

void io_give(struct io *io)
{
	struct lane *lane = io->lane;

	assert(lane_is_current(lane));
	io_show(io, IO_IDLE, 0);
	io->file = NULL;
	io->next_free = lane->ios.free;
	lane->ios.free = io;
	assert(lane->ios.in_flight > 0);
	lane->ios.in_flight--;
}

/* Pages that lie side by side in memory share a vector. */
static void io_vectors(struct io *io)
{
	const struct cache *cache = &io->lane->engine->cache;
	size_t n = 0;

	for (size_t i = 0; i < io->page_count; i++) {
		char *memory = cache_memory(cache, io->pages[i]);
		struct iovec *last = n > 0 ? &io->vectors[n - 1] : NULL;

		if (last && (char *)last->iov_base + last->iov_len == memory)
			last->iov_len += PAGE_BYTES;
		else
			io->vectors[n++] = (struct iovec){memory, PAGE_BYTES};
	}
	io->vector = io->vectors;
	io->vector_count = n;
}

/* What the file is known to hold of the I/O's range. */
static void io_expect(struct io *io)
{
	struct file *file = io->file;

	scoped_lock(&file->lock);
	io->is_direct = file->is_direct;
	io->change_count = file->change_count;
	if (file->size <= io->offset)
		io->expected = 0;
	else if (file->size - io->offset < io->length)
		io->expected = file->size - io->offset;
	else
		io->expected = io->length;
}

void io_submit(struct io *io)
{
	struct lane *lane = io->lane;

	assert(lane_is_current(lane));
	assert(io->page_count > 0 && io->page_count <= IO_PAGES_MAX);
	io_vectors(io);
	io->length = io->page_count << PAGE_SHIFT;
	io->started_ns = clock_now_ns();
	io_expect(io);
	io_show(io, IO_SUBMITTED, 0);
	lane->engine->method->submit(io);
}

/* Destination, offset and length advance together. */
static void io_advance(struct io *io, size_t bytes)
{
	io->progress += bytes;
	assert(io->progress <= io->length);
	while (bytes > 0) {
		size_t n = bytes < io->vector->iov_len ? bytes
		                                       : io->vector->iov_len;

		io->vector->iov_base = (char *)io->vector->iov_base + n;
		io->vector->iov_len -= n;
		bytes -= n;
		if (io->vector->iov_len == 0) {
			io->vector++;
			io->vector_count--;
		}
	}
}

static void io_count(struct io *io)
{
	struct stats_block *stats = &io->lane->stats;

	stat_add(stats, ios, 1);
	stat_add(stats, io_bytes, io->progress);
	stat_add(stats, io_pages, io->page_count);
	stats_add(stats, io->lane->engine->method->count, 1);
	if (io->is_direct)
		stat_add(stats, direct_ios, 1);
	else
		stat_add(stats, buffered_ios, 1);
}

static void io_finish(struct io *io, int error)
{
	io->error = error;
	io_count(io);
	io_show(io, IO_COMPLETED, error ? error : (int64_t)io->progress);
	io->done(io);
}

/* O_DIRECT does not work on this file after all: go on without.  The flag
 * belongs to the open file, so every later I/O is buffered too. */
static bool io_falls_back(struct io *io, int error)
{
	struct file *file = io->file;

	if (error != -EINVAL && error != -EOPNOTSUPP)
		return false;
	if (!io->is_direct ||
	    option_get(io->lane->engine->options, direct) == CHOICE_ON)
		return false;
	int flags = fcntl(file->fd, F_GETFL);

	if (flags < 0 || fcntl(file->fd, F_SETFL, flags & ~O_DIRECT) < 0)
		return false;
	scoped_lock(&file->lock);
	if (file->is_direct)
		stat_add(&io->lane->stats, direct_fallbacks, 1);
	file->is_direct = false;
	io->is_direct = false;
	return true;
}

/* A direct read may go on only at a page: the rest of a page that came in parts
 * is read again.  Vectors end with pages, so the part lies in the first. */
static void io_realign(struct io *io)
{
	size_t partial = io->progress % PAGE_BYTES;

	if (!io->is_direct)
		return;
	io->progress -= partial;
	io->vector->iov_base = (char *)io->vector->iov_base - partial;
	io->vector->iov_len += partial;
}

static bool io_is_retryable(struct io *io, int error)
{
	if (error == -EINTR || error == -EAGAIN)
		return ++io->attempts < IO_ATTEMPTS_MAX;
	return io_falls_back(io, error);
}

void io_complete(struct io *io, int result)
{
	struct lane *lane = io->lane;

	assert(lane_is_current(lane));
	if (result < 0 && io_is_retryable(io, result)) {
		stat_add(&lane->stats, io_retries, 1);
		lane->engine->method->submit(io);
		return;
	}
	if (result <= 0) {
		/* To a program these two mean something else. */
		bool is_exhausted = result == -EINTR || result == -EAGAIN;

		io_finish(io, is_exhausted ? -EIO : result);
		return;
	}
	io_advance(io, (size_t)result);
	/* Short of the end of file: ask again, until two reads in a row end at
	 * the same place, which then is the end of a file that shrank. */
	if (io->progress >= io->expected || io->progress == io->last_end) {
		io_finish(io, 0);
		return;
	}
	stat_add(&lane->stats, io_short, 1);
	io->last_end = io->progress;
	io_realign(io);
	lane->engine->method->submit(io);
}

int io_perform(struct io *io)
{
	ssize_t n = preadv(io->file->fd, io->vector, (int)io->vector_count,
	                   (off_t)(io->offset + io->progress));

	return n < 0 ? -errno : (int)n;
}
