/*
 * edit.h - changing the data of an open file
 *
 * Every change of a file's data goes through SOURCE first and is bracketed for
 * the engine, so that a later read sees it.  A file opened for writing alone
 * may be unreadable to us and have no engine file; but if somebody else has it
 * open, or pages of it are cached, the bracket finds the file by its inode.
 *
 *	edit_begin(&edit, handle, offset, length);
 *	written = pwrite(handle->fd, data, length, offset);
 *	edit_end(&edit, data, offset, written);
 *
 * suid and sgid are cleared inside the bracket: that changes ctime, which
 * would look like a stranger's change outside of it.
 */
#ifndef FS_EDIT_H
#define FS_EDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/file.h"

struct fs;
struct handle;

struct edit {
	struct file *file; /* NULL: nothing of the file can be cached */
	bool is_found;     /* we are a user of it only for this edit */
	struct change change;
};

/* As file_change_begin() and file_change_end(); each begin has its end. */
void edit_begin(struct edit *edit, const struct handle *handle, uint64_t offset,
                uint64_t length);
void edit_end(struct edit *edit, const void *data, uint64_t offset,
              size_t length);

/*
 * Clear suid, and sgid of a file that its group may execute, as SOURCE would
 * for a caller without CAP_FSETID.  Only for a daemon with privileges: for any
 * other, SOURCE does it by itself when it performs the change.
 */
int edit_kill_privileges(const struct fs *fs, int fd);

/* Does the range lie within what an offset can express? */
static inline bool edit_range_is_valid(uint64_t offset, uint64_t length)
{
	return offset <= INT64_MAX && length <= INT64_MAX - offset;
}

#endif
