/*
 * Extended attributes.  No call takes them from an O_PATH descriptor, so they
 * are reached by the descriptor's name in /proc, a link that leads to the very
 * inode, also if that is a symbolic link.
 */
#include <errno.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "engine/cleanup.h"
#include "fs/fs.h"
#include "fs/inode.h"
#include "fs/ops.h"
#include "fs/request.h"

enum { PROC_PATH_BYTES = 32 };

/* What one operation does to the file at @path: bytes in @buffer or -errno. */
typedef ssize_t xattr_call(const struct request *request, const char *path,
                           char *buffer, size_t size);

static ssize_t xattr_at(const struct request *request, struct inode *inode,
                        xattr_call *call, char *buffer, size_t size)
{
	char path[PROC_PATH_BYTES];
	int fd = inode_descriptor(inode);
	ssize_t result;

	if (fd < 0)
		return fd;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	result = call(request, path, buffer, size);
	inode_descriptor_done(inode);
	return result;
}

static ssize_t xattr_read(const struct request *request, xattr_call *call,
                          char *buffer, size_t size)
{
	auto_inode struct inode *inode =
		inode_find(request->fs->inodes, request->header.nodeid);

	if (!inode)
		return -ESTALE;
	return xattr_at(request, inode, call, buffer, size);
}

/* Changing an attribute moves the ctime of the file. */
static int xattr_change(const struct request *request, xattr_call *call)
{
	auto_inode struct inode *inode =
		inode_find(request->fs->inodes, request->header.nodeid);
	struct inode_change change;
	ssize_t result;

	if (!inode)
		return -ESTALE;
	inode_change_begin(inode, &change, 0, 0);
	result = xattr_at(request, inode, call, NULL, 0);
	inode_change_end(&change);
	return (int)result;
}

/* Answer a GETXATTR or LISTXATTR: how large it is if the caller gave no room,
 * else the bytes. */
static void xattr_answer(struct request *request, xattr_call *call)
{
	const struct fuse_getxattr_in *in = request->in;
	struct fuse_getxattr_out out = {.size = 0};
	/* No value and no list is larger; one byte more is not a mistake. */
	size_t size = in->size < XATTR_SIZE_MAX ? in->size : XATTR_SIZE_MAX;
	auto_free char *buffer = size ? malloc(size) : NULL;
	ssize_t result = -ENOMEM;

	if (buffer || !size)
		result = xattr_read(request, call, buffer, size);
	if (result < 0) {
		request_fail(request, (int)result);
	} else if (size) {
		(void)request_reply(request, buffer, (size_t)result);
	} else {
		out.size = (uint32_t)result;
		(void)request_reply(request, &out, sizeof(out));
	}
}

static ssize_t call_set(const struct request *request, const char *path,
                        char *buffer, size_t size)
{
	const struct fuse_setxattr_in *in = request->in;

	if (in->size > request->payload_size)
		return -EINVAL;
	if (setxattr(path, request->names[0], request->payload, in->size,
	             (int)in->flags))
		return -errno;
	return 0;
}

void op_setxattr(struct request *request)
{
	request_finish(request, xattr_change(request, call_set));
}

static ssize_t call_remove(const struct request *request, const char *path,
                           char *buffer, size_t size)
{
	return removexattr(path, request->names[0]) ? -errno : 0;
}

void op_removexattr(struct request *request)
{
	request_finish(request, xattr_change(request, call_remove));
}

static ssize_t call_get(const struct request *request, const char *path,
                        char *buffer, size_t size)
{
	ssize_t length = getxattr(path, request->names[0], buffer, size);

	return length < 0 ? -errno : length;
}

void op_getxattr(struct request *request)
{
	xattr_answer(request, call_get);
}

/* Leave out the names that @request's user would not see on SOURCE, where only
 * root sees trusted ones.  Bytes that remain. */
static ssize_t list_filter(const struct request *request, char *list,
                           size_t length)
{
	const char trusted[] = "trusted.";
	size_t kept = 0;

	if (request->header.uid == 0)
		return (ssize_t)length;
	for (size_t at = 0; at < length;) {
		size_t bytes = strnlen(list + at, length - at - 1) + 1;

		if (strncmp(list + at, trusted, sizeof(trusted) - 1)) {
			memmove(list + kept, list + at, bytes);
			kept += bytes;
		}
		at += bytes;
	}
	return (ssize_t)kept;
}

static ssize_t call_list(const struct request *request, const char *path,
                         char *buffer, size_t size)
{
	auto_free char *list = malloc(XATTR_LIST_MAX);
	ssize_t length;

	if (!list)
		return -ENOMEM;
	length = listxattr(path, list, XATTR_LIST_MAX);
	if (length < 0)
		return -errno;
	length = list_filter(request, list, (size_t)length);
	if (size == 0)
		return length;
	if ((size_t)length > size)
		return -ERANGE;
	memcpy(buffer, list, (size_t)length);
	return length;
}

void op_listxattr(struct request *request)
{
	xattr_answer(request, call_list);
}
