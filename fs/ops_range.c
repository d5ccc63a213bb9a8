#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "fs/edit.h"
#include "fs/fs.h"
#include "fs/handle.h"
#include "fs/inode.h"
#include "fs/ops.h"
#include "fs/request.h"

/*
 * The protocol has no flag here that asks for suid and sgid to be cleared, as
 * it has for a write.  The caller's user id stands in for CAP_FSETID.
 */
static int range_kill_privileges(const struct request *request,
                                 const struct handle *handle)
{
	if (request->header.uid == 0)
		return 0;
	return edit_kill_privileges(request->fs, handle->fd);
}

/* How many bytes from the offset on does fallocate(2) change? */
static uint64_t fallocate_span(const struct fuse_fallocate_in *in)
{
	/* Everything behind moves. */
	if (in->mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE))
		return FILE_TO_END;
	/* Blocks are reserved; no byte that can be read changes. */
	if (in->mode == FALLOC_FL_KEEP_SIZE)
		return 0;
	return in->length;
}

void op_fallocate(struct request *request)
{
	const struct fuse_fallocate_in *in = request->in;
	struct handle *handle =
		handle_find(request->fs->handles, in->fh, HANDLE_FILE);
	struct edit edit;
	int err;

	if (!handle || handle->fd < 0) {
		request_fail(request, -EBADF);
		return;
	}
	if (!edit_range_is_valid(in->offset, in->length)) {
		request_fail(request, -EINVAL);
		return;
	}

	edit_begin(&edit, handle, in->offset, fallocate_span(in));
	err = range_kill_privileges(request, handle);
	if (!err && fallocate(handle->fd, (int)in->mode, (off_t)in->offset,
	                      (off_t)in->length))
		err = -errno;
	edit_end(&edit, NULL, in->offset, 0);
	request_finish(request, err);
}

void op_lseek(struct request *request)
{
	const struct fuse_lseek_in *in = request->in;
	struct handle *handle =
		handle_find(request->fs->handles, in->fh, HANDLE_FILE);
	struct fuse_lseek_out out = {0};
	off_t found;
	int fd;

	if (!handle || (handle->fd < 0 && !handle->file)) {
		request_fail(request, -EBADF);
		return;
	}
	/* Other origins are answered by the kernel. */
	if ((in->whence != SEEK_DATA && in->whence != SEEK_HOLE) ||
	    in->offset > INT64_MAX) {
		request_fail(request, -EINVAL);
		return;
	}

	/* This moves the descriptor's position, which nobody uses. */
	fd = handle->file ? file_descriptor(handle->file) : handle->fd;
	found = lseek(fd, (off_t)in->offset, (int)in->whence);
	if (found < 0) {
		request_fail(request, -errno);
		return;
	}
	out.offset = (uint64_t)found;
	(void)request_reply(request, &out, sizeof(out)); /* nothing to undo */
}

/*
 * A descriptor to copy from; *@ret_owned is to be closed.  The engine's own
 * may be O_DIRECT, and copy_file_range(2) from such a one is EINVAL on ext4
 * (tried on 6.18).  It is the last resort, when the file may not be opened
 * again.
 */
static int copy_source(struct handle *handle, int *ret_owned)
{
	int access = handle->flags & O_ACCMODE;

	if (access == O_RDWR && handle->fd >= 0)
		return handle->fd;
	if (access != O_RDONLY)
		return -EBADF;

	*ret_owned = inode_reopen(handle->inode, O_RDONLY | O_CLOEXEC);
	if (*ret_owned < 0 && handle->file)
		return file_descriptor(handle->file);
	return *ret_owned;
}

static ssize_t copy_range(struct request *request, struct handle *from,
                          struct handle *to, size_t length)
{
	const struct fuse_copy_file_range_in *in = request->in;
	off_t from_offset = (off_t)in->off_in;
	off_t to_offset = (off_t)in->off_out;
	auto_close int owned_fd = -1;
	struct edit edit;
	ssize_t copied;
	int fd;

	fd = copy_source(from, &owned_fd);
	if (fd < 0)
		return fd;

	edit_begin(&edit, to, in->off_out, length);
	copied = range_kill_privileges(request, to);
	if (!copied) {
		copied = copy_file_range(fd, &from_offset, to->fd, &to_offset,
		                         length, (unsigned)in->flags);
		if (copied < 0)
			copied = -errno;
	}
	edit_end(&edit, NULL, in->off_out, 0);
	return copied;
}

/* Copy at most @limit bytes.  A count or -errno. */
static ssize_t copy_checked(struct request *request, uint64_t limit)
{
	const struct fuse_copy_file_range_in *in = request->in;
	struct handle_table *handles = request->fs->handles;
	struct handle *from = handle_find(handles, in->fh_in, HANDLE_FILE);
	struct handle *to = handle_find(handles, in->fh_out, HANDLE_FILE);
	uint64_t length = in->len < limit ? in->len : limit;

	if (!from || !to || to->fd < 0)
		return -EBADF;
	if (!edit_range_is_valid(in->off_in, length) ||
	    !edit_range_is_valid(in->off_out, length))
		return -EINVAL;
	return copy_range(request, from, to, length);
}

void op_copy_file_range(struct request *request)
{
	/* The reply counts in 32 bits; whole pages, so that a copy that is
	 * continued can still share blocks. */
	ssize_t copied = copy_checked(request, UINT32_MAX & ~4095U);
	struct fuse_write_out out = {0};

	if (copied < 0) {
		request_fail(request, (int)copied);
		return;
	}
	out.size = (uint32_t)copied;
	(void)request_reply(request, &out, sizeof(out)); /* nothing to undo */
}

void op_copy_file_range_64(struct request *request)
{
	ssize_t copied = copy_checked(request, INT64_MAX);
	struct wire_copy_file_range_out out = {0};

	if (copied < 0) {
		request_fail(request, (int)copied);
		return;
	}
	out.bytes_copied = (uint64_t)copied;
	(void)request_reply(request, &out, sizeof(out)); /* nothing to undo */
}
