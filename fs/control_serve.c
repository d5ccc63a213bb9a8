#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "fs/control.h"
#include "fs/control_node.h"
#include "fs/fs.h"
#include "fs/handle.h"
#include "fs/request.h"

enum {
	/* Longest write: an option, its value and a newline. */
	CONTROL_WRITE_MAX = 1024,
};

/*
 * Reading and writing files
 */

static void snapshot_close(struct control_snapshot *snapshot)
{
	if (!snapshot)
		return;
	free(snapshot->text);
	free(snapshot);
}
AUTO_DEFINE(snapshot, struct control_snapshot, snapshot_close)

static int snapshot_open(struct fs *fs, const struct control_file *file,
                         struct control_snapshot **ret_snapshot)
{
	AUTO(snapshot)
	struct control_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	FILE *stream;

	if (!snapshot)
		return -ENOMEM;
	stream = open_memstream(&snapshot->text, &snapshot->size);
	if (!stream)
		return -ENOMEM;
	file->print(fs, stream);
	if (fclose(stream) != 0)
		return -ENOMEM;
	*ret_snapshot = steal_ptr(&snapshot);
	return 0;
}

static int open_access(uint32_t flags)
{
	switch (flags & O_ACCMODE) {
	case O_RDONLY:
		return R_OK;
	case O_WRONLY:
		return W_OK;
	default:
		return R_OK | W_OK;
	}
}

static int open_file(const struct request *request, int access,
                     struct handle **ret_handle)
{
	const struct control_file *file =
		control_node_file(request->header.nodeid);
	AUTO(snapshot) struct control_snapshot *snapshot = NULL;
	int err = 0;

	if (!file)
		return -EISDIR;
	if (!control_may(request, access) || ((access & W_OK) && !file->write))
		return -EACCES;
	if (access & R_OK)
		err = snapshot_open(request->fs, file, &snapshot);
	if (err)
		return err;

	struct handle *handle =
		handle_new(request->fs->handles, HANDLE_CONTROL);

	if (!handle)
		return -ENOMEM;
	handle->snapshot = steal_ptr(&snapshot);
	handle->control_node = request->header.nodeid;
	*ret_handle = handle;
	return 0;
}

void control_release(struct fs *fs, struct handle *handle)
{
	snapshot_close(steal_ptr(&handle->snapshot));
	handle_free(fs->handles, handle);
}

static void serve_open(struct request *request)
{
	const struct fuse_open_in *in = request->in;
	struct fs *fs = request->fs;
	struct handle *handle;
	int err = open_file(request, open_access(in->flags), &handle);

	if (err) {
		request_fail(request, err);
		return;
	}

	/* Direct: the kernel would stop at the size of the file, which is 0. */
	struct fuse_open_out out = {
		.fh = handle_id(handle),
		.open_flags = FOPEN_DIRECT_IO,
	};

	if (request_reply(request, &out, sizeof(out)) < 0)
		control_release(fs, handle);
}

/* NULL unless @id is open on the node of the request. */
static struct handle *find_handle(const struct request *request, uint64_t id)
{
	struct handle *handle =
		handle_find(request->fs->handles, id, HANDLE_CONTROL);

	return handle && handle->control_node == request->header.nodeid ? handle
	                                                                : NULL;
}

static void serve_read(struct request *request)
{
	const struct fuse_read_in *in = request->in;
	const struct handle *handle = find_handle(request, in->fh);
	const struct control_snapshot *snapshot = handle ? handle->snapshot
	                                                 : NULL;

	if (!snapshot) {
		request_fail(request, -EBADF);
		return;
	}
	if (in->offset >= snapshot->size) {
		(void)request_reply(request, NULL, 0);
		return;
	}

	size_t left = snapshot->size - in->offset;
	size_t size = left < in->size ? left : in->size;
	/* A copy: once the kernel has the reply, it may release the handle,
	 * and the snapshot with it, before we are back. */
	auto_free char *copy = malloc(size);

	if (!copy) {
		request_fail(request, -ENOMEM);
		return;
	}
	memcpy(copy, snapshot->text + in->offset, size);
	(void)request_reply(request, copy, size);
}

/* One line, with or without its end, as a string. */
static int copy_line(const struct request *request, char *ret_line)
{
	size_t length = request->payload_size;

	if (length > 0 && request->payload[length - 1] == '\n')
		length--;
	if (length == 0 || length >= CONTROL_WRITE_MAX)
		return -EINVAL;
	memcpy(ret_line, request->payload, length);
	ret_line[length] = '\0';
	return strlen(ret_line) == length && !strchr(ret_line, '\n') ? 0
	                                                             : -EINVAL;
}

static void serve_write(struct request *request)
{
	const struct fuse_write_in *in = request->in;
	const struct control_file *file =
		control_node_file(request->header.nodeid);
	struct fuse_write_out out = {.size = (uint32_t)request->payload_size};
	char line[CONTROL_WRITE_MAX];
	int err = -EBADF;

	if (file && file->write && find_handle(request, in->fh))
		err = copy_line(request, line);
	if (!err)
		err = file->write(request->fs, line);
	if (err)
		request_fail(request, err);
	else
		(void)request_reply(request, &out, sizeof(out));
}

static void serve_release(struct request *request)
{
	const struct fuse_release_in *in = request->in;
	struct handle *handle = find_handle(request, in->fh);

	if (handle)
		control_release(request->fs, handle);
	request_finish(request, handle ? 0 : -EBADF);
}

static void serve_nothing(struct request *request)
{
	request_finish(request, 0);
}

static void serve_lseek(struct request *request)
{
	request_fail(request, -EINVAL);
}

/*
 * Serving
 */

/* Whatever is not here would change the directory: -EPERM. */
static const struct {
	uint32_t opcode;
	void (*serve)(struct request *request);
} control_operations[] = {
	{FUSE_LOOKUP, control_lookup},
	{FUSE_GETATTR, control_getattr},
	{WIRE_STATX, control_statx},
	{FUSE_SETATTR, control_setattr},
	{FUSE_ACCESS, control_access},
	{FUSE_STATFS, control_statfs},
	{FUSE_GETXATTR, control_getxattr},
	{FUSE_LISTXATTR, control_listxattr},
	{FUSE_OPENDIR, control_opendir},
	{FUSE_READDIR, control_readdir},
	{FUSE_READDIRPLUS, control_readdirplus},
	{FUSE_RELEASEDIR, serve_nothing},
	{FUSE_FSYNCDIR, serve_nothing},
	{FUSE_OPEN, serve_open},
	{FUSE_READ, serve_read},
	{FUSE_WRITE, serve_write},
	{FUSE_FLUSH, serve_nothing},
	{FUSE_FSYNC, serve_nothing},
	{FUSE_RELEASE, serve_release},
	{FUSE_LSEEK, serve_lseek},
};

/* A node that exists; a LOOKUP in the root comes with the root's. */
static bool node_is_known(const struct request *request)
{
	uint64_t node_id = request->header.nodeid;

	return request->fs->control &&
	       (!control_is_node(node_id) || node_id == CONTROL_NODE_ROOT ||
	        control_node_file(node_id));
}

void control_serve(struct request *request)
{
	uint32_t opcode = request->header.opcode;

	if (!node_is_known(request)) {
		request_fail(request, -ESTALE);
		return;
	}
	/* The name in the root can be looked up, and nothing else. */
	if (control_is_node(request->header.nodeid) || opcode == FUSE_LOOKUP) {
		for (size_t i = 0; i < ARRAY_SIZE(control_operations); i++) {
			if (control_operations[i].opcode == opcode) {
				control_operations[i].serve(request);
				return;
			}
		}
	}
	request_fail(request, -EPERM);
}
