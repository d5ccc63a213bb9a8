#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/control.h"
#include "fs/control_node.h"
#include "fs/fs.h"
#include "fs/request.h"

/*
 * Names and attributes
 */

void control_lookup(struct request *request)
{
	const char *name = request->names[0];
	struct fuse_entry_out entry;
	uint64_t node_id = CONTROL_NODE_ROOT;

	if (request->header.nodeid == CONTROL_NODE_ROOT) {
		size_t i = 0;

		while (i < control_file_count() &&
		       strcmp(control_file(i)->name, name) != 0)
			i++;
		if (i == control_file_count()) {
			request_fail(request, -ENOENT);
			return;
		}
		node_id = control_file_node(i);
	} else if (control_is_node(request->header.nodeid)) {
		request_fail(request, -ENOTDIR);
		return;
	}
	control_entry(request->fs, node_id, &entry);
	(void)request_reply(request, &entry, sizeof(entry));
}

void control_getattr(struct request *request)
{
	struct fuse_attr_out out = {.attr_valid = CONTROL_VALID_SECONDS};

	control_attributes(request->fs, request->header.nodeid, &out.attr);
	(void)request_reply(request, &out, sizeof(out));
}

void control_statx(struct request *request)
{
	struct fuse_attr attr;

	control_attributes(request->fs, request->header.nodeid, &attr);

	struct wire_sx_time now = {
		.tv_sec = (int64_t)attr.mtime,
		.tv_nsec = attr.mtimensec,
	};
	struct wire_statx_out out = {
		.attr_valid = CONTROL_VALID_SECONDS,
		.stat =
			{
				.mask = STATX_BASIC_STATS,
				.blksize = attr.blksize,
				.nlink = attr.nlink,
				.uid = attr.uid,
				.gid = attr.gid,
				.mode = (uint16_t)attr.mode,
				.ino = attr.ino,
				.atime = now,
				.ctime = now,
				.mtime = now,
			},
	};

	(void)request_reply(request, &out, sizeof(out));
}

/* A shell truncates what it redirects to; a size means nothing here. */
void control_setattr(struct request *request)
{
	const struct fuse_setattr_in *in = request->in;
	const struct control_file *file =
		control_node_file(request->header.nodeid);

	if (!file || !file->write || !control_may(request, W_OK) ||
	    (in->valid & (FATTR_MODE | FATTR_UID | FATTR_GID)))
		request_fail(request, -EPERM);
	else
		control_getattr(request);
}

void control_access(struct request *request)
{
	const struct fuse_access_in *in = request->in;

	request_finish(request,
	               control_may(request, (int)in->mask) ? 0 : -EACCES);
}

/* There is nothing to be full; and SOURCE is not asked: it may hang. */
void control_statfs(struct request *request)
{
	struct fuse_statfs_out out = {
		.st = {.bsize = 4096, .frsize = 4096, .namelen = 255},
	};

	(void)request_reply(request, &out, sizeof(out));
}

void control_getxattr(struct request *request)
{
	request_fail(request, -ENODATA);
}

void control_listxattr(struct request *request)
{
	const struct fuse_getxattr_in *in = request->in;
	struct fuse_getxattr_out out = {.size = 0};

	if (in->size == 0)
		(void)request_reply(request, &out, sizeof(out));
	else
		request_finish(request, 0);
}

/*
 * Listing the directory
 */

enum {
	/* All entries in one reply. */
	CONTROL_LIST_MAX = 4096,
};

struct listing {
	char bytes[CONTROL_LIST_MAX];
	size_t size;
	size_t limit; /* what the kernel has room for */
	bool is_plus;
	const struct fs *fs;
};

/* The entry at @position (from 1), false if there is no more room. */
static bool listing_add(struct listing *listing, uint64_t position,
                        const char *name, uint64_t node_id, bool is_file)
{
	struct fuse_direntplus plus = {.entry_out = {.nodeid = 0}};
	size_t length = strlen(name);
	size_t head = listing->is_plus ? FUSE_NAME_OFFSET_DIRENTPLUS
	                               : FUSE_NAME_OFFSET;
	size_t size = FUSE_DIRENT_ALIGN(head + length);
	char *place = listing->bytes + listing->size;

	if (size > listing->limit - listing->size)
		return false;
	if (is_file)
		control_entry(listing->fs, node_id, &plus.entry_out);
	plus.dirent.ino = node_id;
	plus.dirent.off = position;
	plus.dirent.namelen = (uint32_t)length;
	plus.dirent.type = is_file ? S_IFREG >> 12 : S_IFDIR >> 12;
	memcpy(place,
	       listing->is_plus ? (const void *)&plus
	                        : (const void *)&plus.dirent,
	       head);
	memcpy(place + head, name, length);
	memset(place + head + length, 0, size - head - length);
	listing->size += size;
	return true;
}

/* "." and ".." come without attributes: the kernel knows them. */
static void serve_list(struct request *request, bool is_plus)
{
	const struct fuse_read_in *in = request->in;
	struct listing listing = {
		.limit = in->size < CONTROL_LIST_MAX ? in->size
	                                             : CONTROL_LIST_MAX,
		.is_plus = is_plus,
		.fs = request->fs,
	};
	bool has_room = true;

	for (uint64_t i = in->offset; has_room && i < control_file_count() + 2;
	     i++) {
		if (i < 2)
			has_room = listing_add(&listing, i + 1,
			                       i == 0 ? "." : "..",
			                       CONTROL_NODE_ROOT, false);
		else
			has_room = listing_add(&listing, i + 1,
			                       control_file(i - 2)->name,
			                       control_file_node(i - 2), true);
	}
	(void)request_reply(request, listing.bytes, listing.size);
}

void control_readdir(struct request *request)
{
	serve_list(request, false);
}

void control_readdirplus(struct request *request)
{
	serve_list(request, true);
}

void control_opendir(struct request *request)
{
	struct fuse_open_out out = {.fh = 0};

	if (request->header.nodeid == CONTROL_NODE_ROOT)
		(void)request_reply(request, &out, sizeof(out));
	else
		request_fail(request, -ENOTDIR);
}
