#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/caller.h"
#include "fs/fs.h"
#include "fs/handle.h"
#include "fs/inode.h"
#include "fs/opening.h"
#include "fs/ops.h"
#include "fs/request.h"

void op_open(struct request *request)
{
	const struct fuse_open_in *in = request->in;
	struct opening opening = {
		.fs = request->fs,
		.node_id = request->header.nodeid,
		.inode =
			inode_find(request->fs->inodes, request->header.nodeid),
		.flags = (int)in->flags,
		.fd = -1,
		.is_truncated = in->flags & O_TRUNC,
		.kills_privileges = in->open_flags & FUSE_OPEN_KILL_SUIDGID,
	};
	struct fuse_open_out out;
	int err;

	err = opening_run(&opening);
	if (err) {
		request_fail(request, err);
		return;
	}
	opening_answer(&opening, &out);
	err = request_reply(request, &out, sizeof(out));
	opening_finish(&opening, err);
}

/* Make a file as the caller.  A descriptor or -errno. */
static int create_descriptor(struct request *request, const char *name,
                             int flags)
{
	const struct fuse_create_in *in = request->in;
	struct inode *parent;
	struct caller caller;
	int directory_fd;
	int fd;

	parent = inode_find(request->fs->inodes, request->header.nodeid);
	if (!parent)
		return -ESTALE;
	directory_fd = inode_descriptor(parent);
	if (directory_fd < 0) {
		inode_put(parent);
		return directory_fd;
	}

	caller_enter(&caller, request, (mode_t)in->umask);
	fd = openat(directory_fd, name, flags, (mode_t)(in->mode & 07777));
	if (fd < 0)
		fd = -errno;
	caller_leave(&caller);

	inode_descriptor_done(parent);
	inode_put(parent);
	return fd;
}

enum create_kind { CREATE_NAMED, CREATE_NAMELESS };

/* Answer with the new inode and a handle on it; @fd is taken over. */
static void create_answer(struct request *request, int fd,
                          enum create_kind kind)
{
	const struct fuse_create_in *in = request->in;
	struct opening opening = {
		.fs = request->fs,
		.flags = (int)in->flags,
		.fd = fd,
	};
	struct inode_table *inodes = request->fs->inodes;
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out = {0};
	struct statx attributes;
	int err;

	err = inode_adopt(inodes, fd, &opening.inode, &attributes);
	if (err) {
		close(fd);
		request_fail(request, err);
		return;
	}
	/* No path and perhaps no file handle leads to it any more. */
	if (kind == CREATE_NAMELESS)
		inode_keep(opening.inode);
	opening.node_id = opening.inode->node_id;
	inode_entry(opening.fs, opening.inode, &attributes, &out.entry);

	err = opening_run(&opening);
	if (err) {
		inode_forget(inodes, opening.node_id, 1);
		request_fail(request, err);
		return;
	}
	opening_answer(&opening, &out.open);
	err = request_reply(request, &out, sizeof(out));
	opening_finish(&opening, err);
	if (err)
		inode_forget(inodes, opening.node_id, 1);
}

void op_create(struct request *request)
{
	const struct fuse_create_in *in = request->in;
	int flags = opening_descriptor_flags((int)in->flags);
	int fd;

	fd = create_descriptor(request, request->names[0],
	                       flags | O_CREAT | O_EXCL | O_NOFOLLOW);
	/*
	 * Somebody made the file since the kernel looked.  Nobody has checked
	 * whether the caller may open that one, and it may be no regular file:
	 * ESTALE makes the kernel look again and ask for an ordinary open.
	 */
	if (fd == -EEXIST && !(in->flags & O_EXCL))
		fd = -ESTALE;
	if (fd < 0)
		request_fail(request, fd);
	else
		create_answer(request, fd, CREATE_NAMED);
}

void op_tmpfile(struct request *request)
{
	const struct fuse_create_in *in = request->in;
	int flags = opening_descriptor_flags((int)in->flags);
	int fd;

	/* With O_EXCL the file can never be given a name. */
	flags |= O_TMPFILE | ((int)in->flags & O_EXCL);
	fd = create_descriptor(request, ".", flags);
	if (fd < 0)
		request_fail(request, fd);
	else
		create_answer(request, fd, CREATE_NAMELESS);
}

void op_release(struct request *request)
{
	const struct fuse_release_in *in = request->in;
	struct handle *handle =
		handle_find(request->fs->handles, in->fh, HANDLE_FILE);

	if (!handle) {
		request_fail(request, -EBADF);
		return;
	}
	/* Before the reply: who unmounts afterwards finds nothing open. */
	opening_close(request->fs, handle);
	request_finish(request, 0);
}
