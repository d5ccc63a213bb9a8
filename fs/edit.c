#include "fs/edit.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "fs/fs.h"
#include "fs/handle.h"
#include "fs/inode.h"

void edit_begin(struct edit *edit, const struct handle *handle, uint64_t offset,
                uint64_t length)
{
	assert(handle->inode);
	edit->is_found = !handle->file;
	edit->file = handle->file ? handle->file : inode_file(handle->inode);
	if (edit->file)
		file_change_begin(edit->file, &edit->change, offset, length);
}

void edit_end(struct edit *edit, const void *data, uint64_t offset,
              size_t length)
{
	if (!edit->file)
		return;
	file_change_end(edit->file, &edit->change, data, offset, length);
	if (edit->is_found)
		file_close(edit->file);
	edit->file = NULL;
}

int edit_kill_privileges(const struct fs *fs, int fd)
{
	struct stat attributes;
	mode_t killed = 0;

	assert(fd >= 0);
	if (!fs->is_privileged ||
	    !atomic_load_explicit(&fs->kills_privileges, memory_order_relaxed))
		return 0;
	if (fstat(fd, &attributes))
		return -errno;

	/* Without group execution the bit is no privilege: it once meant
	 * mandatory locking, and a write leaves it alone. */
	if (attributes.st_mode & S_IXGRP)
		killed = S_ISGID;
	killed = attributes.st_mode & (killed | S_ISUID);
	if (killed && fchmod(fd, (attributes.st_mode & ~killed) & 07777))
		return -errno;
	return 0;
}
