#include "fs/opening.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "engine/options.h"
#include "fs/edit.h"
#include "fs/fs.h"
#include "fs/handle.h"

static bool opening_is_write_only(const struct opening *opening)
{
	return (opening->flags & O_ACCMODE) == O_WRONLY;
}

static bool opening_writes(const struct opening *opening)
{
	return opening_is_write_only(opening) ||
	       (opening->flags & O_ACCMODE) == O_RDWR;
}

int opening_descriptor_flags(int flags)
{
	return (flags & (O_ACCMODE | O_SYNC | O_DSYNC)) | O_CLOEXEC;
}

static enum inode_mode opening_choose_mode(const struct fs *fs)
{
	int64_t choice = option_get(fs->options, kernel_cache);
	bool can_map = atomic_load_explicit(&fs->allows_direct_mmap,
	                                    memory_order_relaxed);

	if (choice == CHOICE_ON)
		return INODE_CACHED;
	/* Shared maps must work (SQLite's WAL needs them). */
	if (choice == CHOICE_AUTO && !can_map)
		return INODE_CACHED;
	return INODE_DIRECT;
}

/* file_opener: the descriptor that the engine reads from. */
static int opening_reader(void *context, int flags)
{
	const struct opening *opening = context;
	int fd;

	/* What the cache fetches says nothing about who read the file when;
	 * but only its owner may leave the access time alone. */
	fd = inode_reopen(opening->inode, flags | O_NOATIME | O_CLOEXEC);
	if (fd == -EPERM)
		fd = inode_reopen(opening->inode, flags | O_CLOEXEC);

	/* A program may read the file that it made, whatever mode it gave it
	 * and even without a name. */
	if ((fd == -EACCES || fd == -ESTALE) && opening->fd >= 0 &&
	    !opening_is_write_only(opening)) {
		fd = fcntl(opening->fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return -errno;
	}
	return fd;
}

/* What the kernel has cached of the inode is what the file holds: it may keep
 * it.  Else it drops it at this open. */
static bool opening_may_keep_locked(const struct opening *opening,
                                    const struct handle *handle,
                                    bool is_changed)
{
	struct inode *inode = opening->inode;
	uint64_t contents = handle->file ? file_contents(handle->file) : 0;
	bool may_keep = contents != 0 && !is_changed &&
	                contents == inode->kernel_contents;

	assert(lock_is_held(&inode->open_lock));
	inode->kernel_contents = contents;
	return may_keep;
}

/* Without default_permissions nobody but SOURCE checks access, and a file that
 * is open already would not be asked for again. */
static int opening_ask(const struct opening *opening)
{
	if (opening->fs->default_permissions || opening->fd >= 0)
		return 0;
	auto_close int fd = inode_reopen(
		opening->inode, (opening->flags & O_ACCMODE) | O_CLOEXEC);

	return fd < 0 ? fd : 0;
}

/* Join those who have the inode open, in the mode that they share. */
static int opening_attach(struct opening *opening, struct handle *handle)
{
	struct inode *inode = opening->inode;
	bool is_changed = false;

	scoped_lock(&inode->open_lock);
	int err = file_open(opening->fs->engine, &inode->key, opening_reader,
	                    opening, &handle->file, &is_changed);

	/* Writing needs no permission to read. */
	if (err && (err != -EACCES || !opening_is_write_only(opening)))
		return err;
	if (inode->open_count == 0)
		inode->mode = opening_choose_mode(opening->fs);
	opening->mode = inode->mode;
	opening->keeps_cache =
		opening_may_keep_locked(opening, handle, is_changed);
	inode->open_count++;
	return 0;
}

static void handle_detach(struct inode *inode)
{
	scoped_lock(&inode->open_lock);
	assert(inode->open_count > 0);
	inode->open_count--;
	if (inode->open_count == 0)
		inode->mode = INODE_CLOSED;
}

void opening_close(struct fs *fs, struct handle *handle)
{
	struct inode *inode = handle->inode;

	handle_detach(inode);
	if (handle->file)
		file_close(handle->file);
	if (handle->fd >= 0)
		close(handle->fd);
	handle_free(fs->handles, handle);
	inode_put(inode);
}

static int opening_truncate(const struct opening *opening)
{
	const struct handle *handle = opening->handle;
	auto_close int own_fd = -1;
	int fd = handle->fd;
	struct edit edit;
	int err = 0;

	/* O_RDONLY | O_TRUNC truncates as well. */
	if (fd < 0) {
		own_fd = inode_reopen(handle->inode, O_WRONLY | O_CLOEXEC);
		if (own_fd < 0)
			return own_fd;
		fd = own_fd;
	}

	edit_begin(&edit, handle, 0, FILE_TO_END);
	if (opening->kills_privileges)
		err = edit_kill_privileges(opening->fs, fd);
	if (!err && ftruncate(fd, 0))
		err = -errno;
	edit_end(&edit, NULL, 0, 0);
	return err;
}

/* The handle never reached the kernel, which dropped nothing. */
static void opening_undo(struct opening *opening)
{
	struct inode *inode = opening->handle->inode;

	if (!opening->keeps_cache) {
		scoped_lock(&inode->open_lock);
		inode->kernel_contents = 0;
	}
	opening_close(opening->fs, opening->handle);
	opening->handle = NULL;
}

static int opening_make_handle(struct opening *opening)
{
	struct handle *handle;
	int err;

	if (!opening->inode)
		return -ESTALE;
	/* The kernel opens everything else by itself. */
	if (opening->inode->type != S_IFREG)
		return opening->inode->type == S_IFDIR ? -EISDIR : -EINVAL;

	if (opening->fd < 0 && opening_writes(opening)) {
		int flags = opening_descriptor_flags(opening->flags);

		opening->fd = inode_reopen(opening->inode, flags);
		if (opening->fd < 0)
			return opening->fd;
	}

	err = opening_ask(opening);
	if (err)
		return err;
	handle = handle_new(opening->fs->handles, HANDLE_FILE);
	if (!handle)
		return -ENOMEM;
	err = opening_attach(opening, handle);
	if (err) {
		handle_free(opening->fs->handles, handle);
		return err;
	}

	handle->flags = opening->flags;
	handle->inode = steal_ptr(&opening->inode);
	if (opening_writes(opening))
		handle->fd = steal_fd(&opening->fd);
	opening->handle = handle;
	return 0;
}

int opening_run(struct opening *opening)
{
	int err = opening_make_handle(opening);

	if (!err && opening->is_truncated) {
		err = opening_truncate(opening);
		if (err)
			opening_undo(opening);
	}
	if (opening->fd >= 0)
		close(opening->fd);
	if (opening->inode)
		inode_put(opening->inode);
	return err;
}

void opening_answer(const struct opening *opening,
                    struct fuse_open_out *ret_out)
{
	memset(ret_out, 0, sizeof(*ret_out));
	ret_out->fh = handle_id(opening->handle);

	/* Everything is written through: close(2) has nothing to flush. */
	ret_out->open_flags = FOPEN_NOFLUSH;
	if (opening->mode == INODE_DIRECT)
		ret_out->open_flags |= FOPEN_DIRECT_IO |
		                       FOPEN_PARALLEL_DIRECT_WRITES;
	else if (opening->keeps_cache)
		ret_out->open_flags |= FOPEN_KEEP_CACHE;
}

void opening_finish(struct opening *opening, int reply_error)
{
	if (reply_error)
		opening_undo(opening);
}
