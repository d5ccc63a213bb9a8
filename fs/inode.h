/*
 * inode.h - node ids and the files of SOURCE behind them
 *
 * The kernel names inodes by node id: a 64-bit counter of ours, never used
 * twice (generation 0); the root is FUSE_ROOT_ID.  The table's key is device,
 * inode number and birth time (or handle generation), so that an inode number
 * recycled by SOURCE is another inode, and hard links are one.
 *
 * Reaching the file.  A privileged daemon keeps a file handle
 * (name_to_handle_at(2)) per inode and opens an O_PATH descriptor when it is
 * needed; a bounded number of descriptors stays open, the least recently used
 * are closed first.  Where handles do not work (no CAP_DAC_READ_SEARCH, a
 * SOURCE that cannot encode them, an inode on another device) the descriptor
 * stays open as long as the inode is known; running out of them is -ENFILE.
 *
 * Two counts.  The lookup count is the kernel's: raised by every reply that
 * carries the inode, lowered by FORGET.  References are ours: an operation
 * holds one from inode_find() or inode_lookup() to inode_put().  The inode is
 * freed when both are zero; finding one and raising a count is one critical
 * section with the drop to zero.
 */
#ifndef FS_INODE_H
#define FS_INODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "engine/cleanup.h"
#include "engine/file.h"
#include "engine/lock.h"
#include "fs/wire.h"

struct fs;
struct inode;
struct inode_table;

/* How the kernel caches an inode; fixed while any handle is open, because the
 * kernel refuses to mix. */
enum inode_mode { INODE_CLOSED, INODE_DIRECT, INODE_CACHED };

struct inode {
	/* Set when the inode is made, constant until it is freed. */
	struct inode_table *table;
	uint64_t node_id;
	struct file_key key;
	mode_t type; /* S_IFMT bits */

	/* Protected by open_lock: open handles of a regular file. */
	struct lock open_lock;
	unsigned open_count;
	enum inode_mode mode;
	uint64_t kernel_contents; /* file_contents() of what the kernel has
	                             cached; 0: to be dropped */

	/* The rest is inode.c's. */
	struct inode_private *private;
};

/* @fs->source_fd is the root.  -ENOMEM or the error of statx(2). */
int inode_table_open(struct fs *fs, struct inode_table **ret_table);
void inode_table_close(struct inode_table *table);
uint64_t inode_table_count(struct inode_table *table);

/* The node id of a file, or 0: the kernel does not know it. */
uint64_t inode_node(struct inode_table *table, const struct file_key *key);

/* The inode of @node_id with a reference, or NULL: the kernel made it up. */
struct inode *inode_find(struct inode_table *table, uint64_t node_id);

/* Accepts NULL, as auto_inode needs it. */
void inode_put(struct inode *inode);
AUTO_DEFINE(inode, struct inode, inode_put)
#define auto_inode AUTO(inode)

/*
 * Find or make the inode of @name in @parent ("." for the parent itself is not
 * accepted, nor "..").  The caller gets a reference and, in the same critical
 * section, one lookup count to hand to the kernel.  *@ret_stat is its fresh
 * stat.  May block.  -ENOENT, -ENFILE, -ENOMEM, ...
 */
int inode_lookup(struct inode *parent, const char *name,
                 struct inode **ret_inode, struct statx *ret_stat);

/* As inode_lookup() for an O_PATH or ordinary descriptor of the file, which
 * stays the caller's. */
int inode_adopt(struct inode_table *table, int fd, struct inode **ret_inode,
                struct statx *ret_stat);

/* Take @count lookups back: a FORGET, or a reply that the kernel refused. */
void inode_forget(struct inode_table *table, uint64_t node_id, uint64_t count);

/* As inode_lookup() without a lookup count, only if the inode is known: for
 * refreshing what is cached of it.  NULL if it is not. */
struct inode *inode_peek(struct inode *parent, const char *name);

/*
 * An O_PATH descriptor of the inode, valid until inode_descriptor_done().
 * >= 0 or -errno (-ESTALE: the file is gone).  May block.
 */
int inode_descriptor(struct inode *inode);
void inode_descriptor_done(struct inode *inode);

/*
 * Keep the descriptor open: the file is about to lose its last name, after
 * which a handle no longer finds it.  Best effort; true if it is kept.  Holds
 * until the inode is freed, or inode_unkeep(): the file has a name after all.
 */
bool inode_keep(struct inode *inode);
void inode_unkeep(struct inode *inode);

/* Open the file itself with @flags (never follows links, strips O_CREAT,
 * O_EXCL, O_TRUNC is honoured).  A descriptor or -errno.  May block. */
int inode_reopen(struct inode *inode, int flags);

/* Fresh attributes, through an open descriptor if there is one. */
int inode_stat(struct inode *inode, struct statx *ret_stat);

/* The engine's file of an inode with open handles or cached pages, with a user
 * added (file_close() it), or NULL. */
struct file *inode_file(struct inode *inode);

/*
 * Compare @stat, which is fresh, with what is cached of the inode, and drop
 * that if the file was changed behind the mount.  Not while the caller itself
 * changes the file.
 */
void inode_check(struct inode *inode, const struct statx *stat);

/*
 * Brackets a change that we make to the inode, as file_change_begin() and
 * file_change_end() do, if the engine knows its file: our own new ctime must
 * not look like somebody else's.  @inode may be NULL: nothing happens.
 */
struct inode_change {
	struct file *file;
	struct change change;
	uint64_t offset;
};
void inode_change_begin(struct inode *inode, struct inode_change *change,
                        uint64_t offset, uint64_t length);
void inode_change_end(struct inode_change *change);

/* What the kernel wants to know about an inode. */
void inode_attributes(const struct statx *stat, struct fuse_attr *ret_attr);
void inode_entry(const struct fs *fs, const struct inode *inode,
                 const struct statx *stat, struct fuse_entry_out *ret_entry);

/* The mask that inode_attributes() and the table need. */
#define INODE_STATX_MASK (STATX_BASIC_STATS | STATX_BTIME)

#endif
