#include "fs/inode.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fs/fs.h"
#include "fs/inode_private.h"

static uint64_t statx_birth(const struct statx *stat, int fd)
{
	if (stat->stx_mask & STATX_BTIME)
		return (uint64_t)stat->stx_btime.tv_sec * 1000000000 +
		       stat->stx_btime.tv_nsec;
	return descriptor_generation(fd);
}

static int descriptor_stat(int fd, struct statx *ret_stat)
{
	if (statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, INODE_STATX_MASK,
	          ret_stat))
		return -errno;
	return 0;
}

int inode_identify(int fd, struct file_key *ret_key, struct statx *ret_stat)
{
	int err = descriptor_stat(fd, ret_stat);

	if (err)
		return err;
	ret_key->device =
		makedev(ret_stat->stx_dev_major, ret_stat->stx_dev_minor);
	ret_key->inode = ret_stat->stx_ino;
	ret_key->birth = statx_birth(ret_stat, fd);
	return 0;
}

int inode_table_reopen(struct inode_table *table, int fd, int flags)
{
	char name[DESCRIPTOR_NAME_BYTES];
	int opened;

	descriptor_name(fd, name);
	do
		opened = openat(table->fs->proc_fd, name, flags | O_CLOEXEC);
	while (opened < 0 && errno == EMFILE &&
	       descriptor_shed(table->descriptors));
	if (opened < 0)
		return errno == EMFILE ? -ENFILE : -errno;
	return opened;
}

static int open_beneath(int fd, const char *name)
{
	/* RESOLVE_NO_XDEV: what is mounted below SOURCE may be ourselves. */
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS |
	                   RESOLVE_NO_XDEV,
	};
	long child = syscall(SYS_openat2, fd, name, &how, sizeof(how));

	return child < 0 ? -errno : (int)child;
}

int inode_open_child(struct inode *parent, const char *name)
{
	struct descriptor_cache *descriptors = parent->table->descriptors;
	int parent_fd;
	int fd;

	if (!*name || !strcmp(name, ".") || !strcmp(name, "..") ||
	    strchr(name, '/'))
		return -EINVAL;
	parent_fd = inode_descriptor(parent);
	if (parent_fd < 0)
		return parent_fd;
	do
		fd = open_beneath(parent_fd, name);
	while (fd == -EMFILE && descriptor_shed(descriptors));
	inode_descriptor_done(parent);
	return fd == -EMFILE ? -ENFILE : fd;
}

/* The handle leads nowhere any more; but a program has the file open, so the
 * engine has. */
static int inode_rescue(struct inode *inode)
{
	struct file *file;
	int fd;

	/* Whoever holds the lock is opening the file: it is not open yet. */
	if (lock_is_held(&inode->open_lock))
		return -ESTALE;
	file = inode_file(inode);
	if (!file)
		return -ESTALE;
	fd = file_descriptor(file);
	fd = fd < 0 ? -ESTALE : inode_table_reopen(inode->table, fd, O_PATH);
	file_close(file);
	return fd;
}

int inode_descriptor(struct inode *inode)
{
	struct descriptor_cache *descriptors = inode->table->descriptors;
	struct descriptor *descriptor = &inode->private->descriptor;
	int fd = descriptor_get(descriptors, descriptor);

	if (fd != -ESTALE)
		return fd;
	fd = inode_rescue(inode);
	return fd < 0 ? fd : descriptor_give(descriptors, descriptor, fd);
}

void inode_descriptor_done(struct inode *inode)
{
	descriptor_put(inode->table->descriptors, &inode->private->descriptor);
}

bool inode_keep(struct inode *inode)
{
	struct descriptor_cache *descriptors = inode->table->descriptors;

	if (inode_descriptor(inode) < 0)
		return false;
	descriptor_keep(descriptors, &inode->private->descriptor);
	inode_descriptor_done(inode);
	return true;
}

void inode_unkeep(struct inode *inode)
{
	struct descriptor_cache *descriptors = inode->table->descriptors;
	int fd = inode_descriptor(inode);

	assert(fd >= 0); /* it was kept */
	descriptor_unkeep(descriptors, &inode->private->descriptor);
	inode_descriptor_done(inode);
}

int inode_reopen(struct inode *inode, int flags)
{
	int path_fd = inode_descriptor(inode);
	int fd;

	if (path_fd < 0)
		return path_fd;
	/* What the name stands for is a link of /proc, to be followed once. */
	flags &= ~(O_CREAT | O_EXCL | O_NOFOLLOW);
	fd = inode_table_reopen(inode->table, path_fd, flags | O_NOCTTY);
	inode_descriptor_done(inode);
	return fd;
}

int inode_stat(struct inode *inode, struct statx *ret_stat)
{
	int fd = inode_descriptor(inode);
	int err;

	if (fd < 0)
		return fd;
	err = descriptor_stat(fd, ret_stat);
	inode_descriptor_done(inode);
	return err;
}
