#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "engine/stats.h"
#include "fs/edit.h"
#include "fs/fs.h"
#include "fs/handle.h"
#include "fs/inode.h"
#include "fs/ops.h"
#include "fs/request.h"

/* The read lies inside the request, and its pages must outlive the reply:
 * hence the reply first, the pages second, the request last. */
static void read_reply(struct request *request)
{
	struct iovec vectors[READ_PAGES_MAX];
	ssize_t result = request->read.result;
	size_t count;

	if (result < 0) {
		read_release(&request->read);
		request_fail(request, (int)result);
		return;
	}
	count = read_vectors(&request->read, vectors);
	assert(count <= READ_PAGES_MAX);
	/* A reader that gave up needs no undoing: it was given no reference. */
	(void)request_send(request, vectors, count);
	read_release(&request->read);
	request_end(request);
}

static void read_done(struct read *read)
{
	read_reply(container_of(read, struct request, read));
}

void op_read(struct request *request)
{
	const struct fuse_read_in *in = request->in;
	struct handle *handle =
		handle_find(request->fs->handles, in->fh, HANDLE_FILE);

	if (!handle || !handle->file) {
		request_fail(request, -EBADF);
		return;
	}
	if (in->size > READ_BYTES_MAX ||
	    !edit_range_is_valid(in->offset, in->size)) {
		request_fail(request, -EINVAL);
		return;
	}

	request->read.offset = in->offset;
	request->read.length = in->size;
	request->read.done = read_done;
	if (file_read(request->lane, handle->file, &request->read) == READ_DONE)
		read_reply(request);
}

/* Writeback of a mapping arrives on any writable handle of the inode, so an
 * O_APPEND of that handle does not concern it. */
static bool write_is_append(const struct fuse_write_in *in)
{
	return in->flags & O_APPEND && !(in->write_flags & FUSE_WRITE_CACHE);
}

/* How the kernel is to write.  O_SYNC of open(2) is on the descriptor; that of
 * a single pwritev2(2) arrives with the request only. */
static int write_flags(const struct handle *handle,
                       const struct fuse_write_in *in)
{
	int added = (int)in->flags & ~handle->flags;
	int flags = 0;

	if (write_is_append(in))
		flags |= RWF_APPEND;
	if (added & (O_SYNC & ~O_DSYNC))
		flags |= RWF_SYNC;
	else if (added & O_DSYNC)
		flags |= RWF_DSYNC;
	return flags;
}

/* Bytes written, if any were; else -errno. */
static ssize_t write_all(int fd, const char *data, size_t length,
                         uint64_t offset, int flags)
{
	size_t written = 0;

	while (written < length) {
		struct iovec rest = {
			.iov_base = (char *)data + written,
			.iov_len = length - written,
		};
		ssize_t n = pwritev2(fd, &rest, 1, (off_t)(offset + written),
		                     flags);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && written == 0)
			return -errno;
		if (n <= 0)
			break;
		written += (size_t)n;
	}
	return (ssize_t)written;
}

/* Bytes written or -errno; inside the bracket of an edit. */
static ssize_t write_perform(struct request *request, struct handle *handle)
{
	const struct fuse_write_in *in = request->in;

	if (in->write_flags & FUSE_WRITE_KILL_SUIDGID) {
		int err = edit_kill_privileges(request->fs, handle->fd);

		if (err)
			return err;
	}
	return write_all(handle->fd, request->payload, in->size, in->offset,
	                 write_flags(handle, in));
}

static ssize_t write_at(struct request *request, struct handle *handle)
{
	const struct fuse_write_in *in = request->in;
	struct edit edit;
	ssize_t written;

	edit_begin(&edit, handle, in->offset, in->size);
	written = write_perform(request, handle);
	if (written > 0)
		edit_end(&edit, request->payload, in->offset, (size_t)written);
	else
		edit_end(&edit, NULL, in->offset, 0);
	return written;
}

/*
 * Append: SOURCE decides where the data lands.  That is where the kernel
 * thinks, unless the file was changed behind the mount; then the data must not
 * be cached there, and what is dropped begins at the real end.
 */
static ssize_t write_appended(struct request *request, struct handle *handle)
{
	const struct fuse_write_in *in = request->in;
	uint64_t first = in->offset;
	struct stat attributes;
	struct edit edit;
	ssize_t written;

	if (fstat(handle->fd, &attributes))
		return -errno;
	if ((uint64_t)attributes.st_size < first)
		first = (uint64_t)attributes.st_size;

	edit_begin(&edit, handle, first, FILE_TO_END);
	written = write_perform(request, handle);
	if (written > 0 && !fstat(handle->fd, &attributes) &&
	    (uint64_t)attributes.st_size == in->offset + (uint64_t)written)
		edit_end(&edit, request->payload, in->offset, (size_t)written);
	else
		edit_end(&edit, NULL, first, 0);
	return written;
}

void op_write(struct request *request)
{
	const struct fuse_write_in *in = request->in;
	struct handle *handle =
		handle_find(request->fs->handles, in->fh, HANDLE_FILE);
	struct stats_block *stats = lane_stats(request->lane);
	struct fuse_write_out out = {0};
	ssize_t written;

	if (!handle || handle->fd < 0) {
		request_fail(request, -EBADF);
		return;
	}
	if (request->payload_size < in->size ||
	    !edit_range_is_valid(in->offset, in->size)) {
		request_fail(request, -EINVAL);
		return;
	}

	written = write_is_append(in) ? write_appended(request, handle)
	                              : write_at(request, handle);
	if (written < 0) {
		request_fail(request, (int)written);
		return;
	}
	stat_add(stats, writes, 1);
	stat_add(stats, write_bytes, (uint64_t)written);
	out.size = (uint32_t)written;
	(void)request_reply(request, &out, sizeof(out)); /* nothing to undo */
}

void op_flush(struct request *request)
{
	/* Every write is in SOURCE before it is acknowledged. */
	request_finish(request, 0);
}

void op_fsync(struct request *request)
{
	const struct fuse_fsync_in *in = request->in;
	struct handle *handle =
		handle_find(request->fs->handles, in->fh, HANDLE_FILE);
	bool is_data_only = in->fsync_flags & FUSE_FSYNC_FDATASYNC;
	int fd;

	if (!handle || (handle->fd < 0 && !handle->file)) {
		request_fail(request, -EBADF);
		return;
	}
	/* The handle's own descriptor remembers which errors of earlier writes
	 * were not reported on it yet. */
	fd = handle->fd >= 0 ? handle->fd : file_descriptor(handle->file);
	if (is_data_only ? fdatasync(fd) : fsync(fd))
		request_fail(request, -errno);
	else
		request_finish(request, 0);
}
