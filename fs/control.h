/*
 * control.h - the virtual directory that shows what aheadfs does
 *
 * Its nodes have reserved ids at the top of the range, which the inode table
 * never reaches, and are found by name in the root only; readdir never lists
 * them.  Reading gives a snapshot taken at open; writing is answered by errno.
 * The directory of a mount is one table of virtual files (control.c).
 */
#ifndef FS_CONTROL_H
#define FS_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/wire.h"

struct control;
struct fs;
struct handle;
struct request;

/* -EEXIST: SOURCE has an entry of that name. */
int control_open(struct fs *fs, struct control **ret_control);
void control_close(struct control *control);

/* Is @node_id one of ours?  Cheap; false for every real inode. */
bool control_is_node(uint64_t node_id);

/* Is @name in the directory @parent_id one of ours? */
bool control_is_name(const struct fs *fs, uint64_t parent_id, const char *name);

/*
 * Serve a request whose node (or, for LOOKUP, name) is ours.  Replies always.
 * Directory changes and the like are refused with EPERM.  Called by
 * request_dispatch() before the operation itself.
 */
void control_serve(struct request *request);

/* RELEASE without the request: close what the handle owns, and the handle. */
void control_release(struct fs *fs, struct handle *handle);

/* The snapshot of an open control file. */
struct control_snapshot {
	char *text;
	size_t size;
};

#endif
