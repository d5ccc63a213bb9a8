/*
 * opening.h - one open(2) on its way to a handle
 *
 * For a file that is there and for one that was just made:
 *
 *	struct opening opening = { .fs = ..., .inode = ..., .fd = -1, ... };
 *
 *	err = opening_run(&opening);
 *	if (err)
 *		return request_fail(request, err);
 *	opening_answer(&opening, &out);
 *	err = request_reply(request, &out, sizeof(out));
 *	opening_finish(&opening, err);
 *
 * A handle has two descriptors at most.  The engine's, shared by all who have
 * the file open, is for reading.  The handle's own is there only if the program
 * may write, with the access that it asked for.  A file that can be written but
 * not read has no engine file, and needs none.
 *
 * The kernel refuses to mix cached and direct handles of one inode.  So the
 * first handle decides the mode, and the last takes it with it.
 */
#ifndef FS_OPENING_H
#define FS_OPENING_H

#include <stdbool.h>
#include <stdint.h>

#include "fs/inode.h"
#include "fs/wire.h"

struct fs;
struct handle;

struct opening {
	/* Set before opening_run(), which takes inode and fd over. */
	struct fs *fs;
	uint64_t node_id;
	struct inode *inode; /* a reference, or NULL: no such node */
	int flags;           /* the program's */
	int fd;              /* of a file just made, else -1 */
	bool is_truncated;
	bool kills_privileges;

	/* What opening_run() made of it. */
	struct handle *handle;
	enum inode_mode mode;
	bool keeps_cache; /* the kernel's pages of the file are still right */
};

/*
 * What of the program's flags our own descriptor gets.  O_APPEND is not among
 * them: it is given write by write, because pages that the kernel writes back
 * through an appending handle belong where they came from.
 */
int opening_descriptor_flags(int flags);

/* Make the handle.  May block.  On failure nothing is left to clean up. */
int opening_run(struct opening *opening);

void opening_answer(const struct opening *opening,
                    struct fuse_open_out *ret_out);

/* After the reply, whose outcome is @reply_error: if the kernel did not take
 * the handle, it is closed.  If it did, it may be closed already. */
void opening_finish(struct opening *opening, int reply_error);

/* RELEASE: close what the handle owns, and the handle.  May block. */
void opening_close(struct fs *fs, struct handle *handle);

#endif
