/*
 * inode_private.h - what the files of the inode table share
 *
 * inode.c keeps the table and the counts, inode_reach.c gets at the file
 * behind an inode, inode_attr.c says what the kernel wants to know of it.
 */
#ifndef FS_INODE_PRIVATE_H
#define FS_INODE_PRIVATE_H

#include <stdint.h>

#include "engine/lane.h"
#include "engine/lock.h"
#include "fs/descriptor.h"
#include "fs/inode.h"

enum {
	/* Two arrays of 2 MiB, touched as they fill; a million inodes make
	 * chains of four.  A fixed size needs no rehashing, which would hold
	 * up every lane. */
	TABLE_SHIFT = 18,
	TABLE_BUCKETS = 1 << TABLE_SHIFT,
};

struct inode_private {
	struct inode inode;
	struct descriptor descriptor;

	/* Protected by the lock of the table. */
	struct inode_private *next_by_node;
	struct inode_private *next_by_key;
	uint64_t lookup_count;
	uint64_t references;

	/* After the inode left the table. */
	struct task task;
	int last_fd;
};

struct inode_table {
	/* Set by inode_table_open(), never changed. */
	struct fs *fs;
	struct descriptor_cache *descriptors;
	uint64_t root_device;

	/* Protected by lock. */
	struct lock lock;
	uint64_t count;
	uint64_t next_node_id;
	struct inode_private *by_node[TABLE_BUCKETS];
	struct inode_private *by_key[TABLE_BUCKETS];
};

/* The key and a fresh stat of what @fd stands for. */
int inode_identify(int fd, struct file_key *ret_key, struct statx *ret_stat);

/* An O_PATH descriptor of @name in @parent, or -errno. */
int inode_open_child(struct inode *parent, const char *name);

/* Open what @fd stands for again; never follows a symbolic link that it may
 * be.  A descriptor or -errno. */
int inode_table_reopen(struct inode_table *table, int fd, int flags);

#endif
