#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "fs/control.h"
#include "fs/fs.h"
#include "fs/handle.h"
#include "fs/inode.h"
#include "fs/ops.h"
#include "fs/request.h"

enum {
	/* What glibc's readdir(3) asks for: a few hundred names a call. */
	DIRECTORY_BUFFER_BYTES = 32 << 10,
	/* The largest reply that INIT allows. */
	LISTING_BYTES_MAX = 1 << 20,
};

void directory_close(struct fs *fs, struct handle *handle)
{
	if (handle->fd >= 0)
		close(handle->fd);
	free(handle->directory.buffer);
	if (handle->inode)
		inode_put(handle->inode);
	handle_free(fs->handles, handle);
}

static int directory_prepare(struct handle *handle, int flags)
{
	if (!handle->inode)
		return -ESTALE;
	if (handle->inode->type != S_IFDIR)
		return -ENOTDIR;

	handle->flags = flags;
	handle->directory.buffer = malloc(DIRECTORY_BUFFER_BYTES);
	if (!handle->directory.buffer)
		return -ENOMEM;

	int fd =
		inode_reopen(handle->inode, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fd;
	handle->fd = fd;
	return 0;
}

void op_opendir(struct request *request)
{
	const struct fuse_open_in *in = request->in;
	struct fs *fs = request->fs;
	struct fuse_open_out out = {0};
	struct handle *handle;
	int err;

	handle = handle_new(fs->handles, HANDLE_DIRECTORY);
	if (!handle) {
		request_fail(request, -ENOMEM);
		return;
	}
	handle->inode = inode_find(fs->inodes, request->header.nodeid);
	err = directory_prepare(handle, (int)in->flags);
	if (err) {
		directory_close(fs, handle);
		request_fail(request, err);
		return;
	}

	out.fh = handle_id(handle);
	if (request_reply(request, &out, sizeof(out)))
		directory_close(fs, handle);
}

/* The next entry: 1, or 0 at the end, or -errno. */
static int directory_peek_locked(struct handle *handle,
                                 const struct dirent64 **ret_entry)
{
	struct directory_stream *stream = &handle->directory;

	assert(lock_is_held(&stream->lock));
	if (stream->used == stream->size) {
		ssize_t n = getdents64(handle->fd, stream->buffer,
		                       DIRECTORY_BUFFER_BYTES);

		stream->used = 0;
		stream->size = n > 0 ? (size_t)n : 0;
		if (n <= 0)
			return n < 0 ? -errno : 0;
	}
	*ret_entry = (const void *)(stream->buffer + stream->used);
	return 1;
}

static void directory_advance_locked(struct handle *handle,
                                     const struct dirent64 *entry)
{
	struct directory_stream *stream = &handle->directory;

	assert(lock_is_held(&stream->lock));
	assert(stream->used + entry->d_reclen <= stream->size);
	stream->position = (uint64_t)entry->d_off;
	stream->used += entry->d_reclen;
}

static int directory_seek_locked(struct handle *handle, uint64_t offset)
{
	struct directory_stream *stream = &handle->directory;

	assert(lock_is_held(&stream->lock));
	/* Reading from the start, again, must show what was added since. */
	if (offset == stream->position && offset != 0)
		return 0;
	if (lseek(handle->fd, (off_t)offset, SEEK_SET) < 0)
		return -errno;
	stream->position = offset;
	stream->size = 0;
	stream->used = 0;
	return 0;
}

enum listing_kind { LISTING_NAMES, LISTING_ATTRIBUTES };

/* A reply to READDIR or READDIRPLUS being filled. */
struct listing {
	struct fs *fs;
	enum listing_kind kind;
	char *bytes; /* zeroed, so that padding is */
	size_t size;
	size_t used;
};

static size_t listing_entry_bytes(const struct listing *listing,
                                  size_t name_bytes)
{
	if (listing->kind == LISTING_ATTRIBUTES)
		return FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET_DIRENTPLUS +
		                         name_bytes);
	return FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + name_bytes);
}

/*
 * Attributes of an entry, with a lookup count.  Without them (the entry is "."
 * or "..", or has vanished, or may not be reached) the node id stays 0: the
 * kernel takes the name alone.
 */
static void listing_look_up(const struct listing *listing,
                            struct inode *directory, const char *name,
                            struct fuse_direntplus *to)
{
	struct statx attributes;
	struct inode *inode;

	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return;
	if (inode_lookup(directory, name, &inode, &attributes))
		return;
	inode_entry(listing->fs, inode, &attributes, &to->entry_out);
	to->dirent.type = attributes.stx_mode >> 12;
	inode_put(inode);
}

static void listing_put(struct listing *listing, struct inode *directory,
                        const struct dirent64 *entry, size_t name_bytes)
{
	char *place = listing->bytes + listing->used;
	struct fuse_direntplus *plus = (void *)place;
	struct fuse_dirent *to = (void *)place;

	if (listing->kind == LISTING_ATTRIBUTES)
		to = &plus->dirent;
	to->ino = entry->d_ino;
	to->off = (uint64_t)entry->d_off;
	to->namelen = (uint32_t)name_bytes;
	to->type = entry->d_type;
	memcpy((char *)to + FUSE_NAME_OFFSET, entry->d_name, name_bytes);
	if (listing->kind == LISTING_ATTRIBUTES)
		listing_look_up(listing, directory, entry->d_name, plus);
}

/* Fill the reply from @offset on.  An error that comes after some entries is
 * kept for the next call, which meets it again. */
static int listing_fill(struct listing *listing, struct handle *handle,
                        uint64_t offset)
{
	const struct dirent64 *entry = NULL;
	int err;

	scoped_lock(&handle->directory.lock);
	err = directory_seek_locked(handle, offset);
	if (err)
		return err;

	while ((err = directory_peek_locked(handle, &entry)) > 0) {
		/* Somebody made it on SOURCE after the mount: the name stays
		 * ours. */
		if (control_is_name(listing->fs, handle->inode->node_id,
		                    entry->d_name)) {
			directory_advance_locked(handle, entry);
			continue;
		}
		size_t name_bytes = strlen(entry->d_name);
		size_t bytes = listing_entry_bytes(listing, name_bytes);

		/* An empty reply would be the end of the directory. */
		if (bytes > listing->size - listing->used)
			return listing->used > 0 ? 0 : -EINVAL;
		listing_put(listing, handle->inode, entry, name_bytes);
		listing->used += bytes;
		directory_advance_locked(handle, entry);
	}
	return listing->used > 0 ? 0 : err;
}

/* The kernel did not take the reply: take the lookup counts back. */
static void listing_undo(const struct listing *listing)
{
	size_t used = 0;

	if (listing->kind != LISTING_ATTRIBUTES)
		return;
	while (used < listing->used) {
		const struct fuse_direntplus *plus =
			(const void *)(listing->bytes + used);

		if (plus->entry_out.nodeid != 0)
			inode_forget(listing->fs->inodes,
			             plus->entry_out.nodeid, 1);
		used += FUSE_DIRENTPLUS_SIZE(plus);
	}
	assert(used == listing->used);
}

static void listing_reply(struct request *request, enum listing_kind kind)
{
	const struct fuse_read_in *in = request->in;
	struct handle *handle =
		handle_find(request->fs->handles, in->fh, HANDLE_DIRECTORY);
	size_t size = in->size < LISTING_BYTES_MAX ? in->size
	                                           : LISTING_BYTES_MAX;
	auto_free char *bytes = calloc(1, size);
	struct listing listing = {
		.fs = request->fs,
		.kind = kind,
		.bytes = bytes,
		.size = size,
	};
	int err = -EBADF;

	if (!bytes)
		err = -ENOMEM;
	else if (handle)
		err = listing_fill(&listing, handle, in->offset);
	if (err) {
		request_fail(request, err);
		return;
	}
	if (request_reply(request, listing.bytes, listing.used))
		listing_undo(&listing);
}

void op_readdir(struct request *request)
{
	listing_reply(request, LISTING_NAMES);
}

void op_readdirplus(struct request *request)
{
	listing_reply(request, LISTING_ATTRIBUTES);
}

void op_releasedir(struct request *request)
{
	const struct fuse_release_in *in = request->in;
	struct handle *handle =
		handle_find(request->fs->handles, in->fh, HANDLE_DIRECTORY);

	if (!handle) {
		request_fail(request, -EBADF);
		return;
	}
	directory_close(request->fs, handle);
	request_finish(request, 0);
}

void op_fsyncdir(struct request *request)
{
	const struct fuse_fsync_in *in = request->in;
	struct handle *handle =
		handle_find(request->fs->handles, in->fh, HANDLE_DIRECTORY);
	bool is_data_only = in->fsync_flags & FUSE_FSYNC_FDATASYNC;

	if (!handle) {
		request_fail(request, -EBADF);
		return;
	}
	if (is_data_only ? fdatasync(handle->fd) : fsync(handle->fd))
		request_fail(request, -errno);
	else
		request_finish(request, 0);
}
