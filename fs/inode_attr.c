#include "fs/inode.h"

#include <assert.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "fs/fs.h"
#include "fs/inode_private.h"

struct file *inode_file(struct inode *inode)
{
	if (!S_ISREG(inode->type))
		return NULL;
	return file_find(inode->table->fs->engine, &inode->key);
}

void inode_check(struct inode *inode, const struct statx *stat)
{
	struct file *file = inode_file(inode);

	if (!file)
		return;
	(void)file_check(file, stat);
	file_close(file);
}

void inode_change_begin(struct inode *inode, struct inode_change *change,
                        uint64_t offset, uint64_t length)
{
	change->file = inode ? inode_file(inode) : NULL;
	change->offset = offset;
	if (change->file)
		file_change_begin(change->file, &change->change, offset,
		                  length);
}

void inode_change_end(struct inode_change *change)
{
	if (!change->file)
		return;
	file_change_end(change->file, &change->change, NULL, change->offset, 0);
	file_close(change->file);
	change->file = NULL;
}

void inode_attributes(const struct statx *stat, struct fuse_attr *ret_attr)
{
	*ret_attr = (struct fuse_attr){
		.ino = stat->stx_ino,
		.size = stat->stx_size,
		.blocks = stat->stx_blocks,
		.atime = (uint64_t)stat->stx_atime.tv_sec,
		.mtime = (uint64_t)stat->stx_mtime.tv_sec,
		.ctime = (uint64_t)stat->stx_ctime.tv_sec,
		.atimensec = stat->stx_atime.tv_nsec,
		.mtimensec = stat->stx_mtime.tv_nsec,
		.ctimensec = stat->stx_ctime.tv_nsec,
		.mode = stat->stx_mode,
		.nlink = stat->stx_nlink,
		.uid = stat->stx_uid,
		.gid = stat->stx_gid,
		/* The low half is the kernel's own 32-bit form. */
		.rdev = (uint32_t)makedev(stat->stx_rdev_major,
	                                  stat->stx_rdev_minor),
		.blksize = stat->stx_blksize,
	};
}

void inode_entry(const struct fs *fs, const struct inode *inode,
                 const struct statx *stat, struct fuse_entry_out *ret_entry)
{
	assert(inode->node_id != 0);
	memset(ret_entry, 0, sizeof(*ret_entry));
	ret_entry->nodeid = inode->node_id;
	fs_validity(option_get(fs->options, entry_timeout),
	            &ret_entry->entry_valid, &ret_entry->entry_valid_nsec);
	fs_validity(option_get(fs->options, attr_timeout),
	            &ret_entry->attr_valid, &ret_entry->attr_valid_nsec);
	inode_attributes(stat, &ret_entry->attr);
}
