#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/options.h"
#include "fs/caller.h"
#include "fs/control.h"
#include "fs/descriptor.h"
#include "fs/fs.h"
#include "fs/inode.h"
#include "fs/ops.h"
#include "fs/request.h"

/* Answer with an inode and give the kernel the lookup count that came with it.
 * Takes the reference. */
static int entry_reply(struct request *request, struct inode *inode,
                       const struct statx *stat)
{
	struct inode_table *inodes = request->fs->inodes;
	uint64_t node_id = inode->node_id;
	struct fuse_entry_out out;
	int err;

	inode_entry(request->fs, inode, stat, &out);
	inode_put(inode);
	err = request_reply(request, &out, sizeof(out));
	if (err)
		inode_forget(inodes, node_id, 1);
	return err;
}

static int lookup_run(struct request *request, struct inode **ret_inode,
                      struct statx *ret_stat)
{
	auto_inode struct inode *parent =
		inode_find(request->fs->inodes, request->header.nodeid);

	if (!parent)
		return -ESTALE;
	return inode_lookup(parent, request->names[0], ret_inode, ret_stat);
}

/* The kernel may remember that the name does not exist, if the user wants. */
static void lookup_missing(struct request *request)
{
	int64_t timeout = option_get(request->fs->options, negative_timeout);
	struct fuse_entry_out out = {.nodeid = 0};

	if (timeout == 0) {
		request_fail(request, -ENOENT);
		return;
	}
	fs_validity(timeout, &out.entry_valid, &out.entry_valid_nsec);
	/* Carries no inode: nothing to take back if it fails. */
	(void)request_reply(request, &out, sizeof(out));
}

void op_lookup(struct request *request)
{
	struct inode *inode;
	struct statx stat;
	int err;

	err = lookup_run(request, &inode, &stat);
	if (err == -ENOENT) {
		lookup_missing(request);
		return;
	}
	if (err) {
		request_fail(request, err);
		return;
	}
	inode_check(inode, &stat);
	(void)entry_reply(request, inode, &stat);
}

void op_forget(struct request *request)
{
	const struct fuse_forget_in *in = request->in;

	inode_forget(request->fs->inodes, request->header.nodeid, in->nlookup);
	request_end(request);
}

void op_batch_forget(struct request *request)
{
	const struct fuse_batch_forget_in *in = request->in;
	size_t count = request->payload_size / sizeof(struct fuse_forget_one);
	struct fuse_forget_one one;

	if (count > in->count)
		count = in->count;
	for (size_t i = 0; i < count; i++) {
		/* The payload need not be aligned. */
		memcpy(&one, request->payload + i * sizeof(one), sizeof(one));
		inode_forget(request->fs->inodes, one.nodeid, one.nlookup);
	}
	request_end(request);
}

/* How one kind of file is made: in the directory @fd, 0 or -errno. */
struct maker {
	int (*make)(const struct request *request, int fd);
	mode_t umask;
};

static int create_as_caller(struct request *request, struct inode *parent,
                            const struct maker *maker)
{
	int fd = inode_descriptor(parent);
	struct caller caller;
	int err;

	if (fd < 0)
		return fd;
	caller_enter(&caller, request, maker->umask);
	err = maker->make(request, fd);
	caller_leave(&caller);
	inode_descriptor_done(parent);
	return err;
}

static int create_run(struct request *request, const struct maker *maker,
                      struct inode **ret_inode, struct statx *ret_stat)
{
	auto_inode struct inode *parent =
		inode_find(request->fs->inodes, request->header.nodeid);
	int err;

	if (!parent)
		return -ESTALE;
	err = create_as_caller(request, parent, maker);
	if (err)
		return err;
	return inode_lookup(parent, request->names[0], ret_inode, ret_stat);
}

static void create(struct request *request, const struct maker *maker)
{
	struct inode *inode;
	struct statx stat;
	int err = create_run(request, maker, &inode, &stat);

	if (err)
		request_fail(request, err);
	else
		(void)entry_reply(request, inode, &stat); /* undoes itself */
}

static int make_node(const struct request *request, int fd)
{
	const struct fuse_mknod_in *in = request->in;

	if (mknodat(fd, request->names[0], in->mode, in->rdev))
		return -errno;
	return 0;
}

static int make_directory(const struct request *request, int fd)
{
	const struct fuse_mkdir_in *in = request->in;

	return mkdirat(fd, request->names[0], in->mode) ? -errno : 0;
}

static int make_symlink(const struct request *request, int fd)
{
	const char *target = request->names[1];

	return symlinkat(target, fd, request->names[0]) ? -errno : 0;
}

void op_mknod(struct request *request)
{
	const struct fuse_mknod_in *in = request->in;
	struct maker maker = {make_node, (mode_t)in->umask};

	create(request, &maker);
}

void op_mkdir(struct request *request)
{
	const struct fuse_mkdir_in *in = request->in;
	struct maker maker = {make_directory, (mode_t)in->umask};

	create(request, &maker);
}

void op_symlink(struct request *request)
{
	struct maker maker = {make_symlink, 0};

	create(request, &maker);
}

/* Give the inode behind @fd the new name. */
static int link_at(const struct request *request, int fd, struct inode *parent)
{
	char old_name[DESCRIPTOR_NAME_BYTES];
	int parent_fd = inode_descriptor(parent);
	int err = 0;

	if (parent_fd < 0)
		return parent_fd;
	descriptor_name(fd, old_name);
	if (linkat(request->fs->proc_fd, old_name, parent_fd, request->names[0],
	           AT_SYMLINK_FOLLOW))
		err = -errno;
	inode_descriptor_done(parent);
	return err;
}

static int link_inode(const struct request *request, struct inode *inode,
                      struct inode *parent)
{
	struct inode_change change;
	int fd = inode_descriptor(inode);
	int err;

	if (fd < 0)
		return fd;
	inode_change_begin(inode, &change, 0, 0);
	err = link_at(request, fd, parent);
	inode_change_end(&change);
	inode_descriptor_done(inode);
	return err;
}

static int link_run(struct request *request, struct inode **ret_inode,
                    struct statx *ret_stat)
{
	const struct fuse_link_in *in = request->in;
	auto_inode struct inode *inode =
		inode_find(request->fs->inodes, in->oldnodeid);
	auto_inode struct inode *parent =
		inode_find(request->fs->inodes, request->header.nodeid);
	int err;

	if (control_is_node(in->oldnodeid))
		return -EPERM;
	if (!inode || !parent)
		return -ESTALE;
	err = link_inode(request, inode, parent);
	if (err)
		return err;
	return inode_lookup(parent, request->names[0], ret_inode, ret_stat);
}

void op_link(struct request *request)
{
	struct inode *inode;
	struct statx stat;
	int err = link_run(request, &inode, &stat);

	if (err)
		request_fail(request, err);
	else
		(void)entry_reply(request, inode, &stat); /* undoes itself */
}

static int unlink_at(struct inode *parent, const char *name, int flags)
{
	int fd = inode_descriptor(parent);
	int err = 0;

	if (fd < 0)
		return fd;
	if (unlinkat(fd, name, flags))
		err = -errno;
	inode_descriptor_done(parent);
	return err;
}

/* An inode that loses a name, perhaps its last: programs may have it open, and
 * its ctime moves. */
struct loser {
	struct inode *inode; /* NULL: not known, so nobody has it open */
	bool is_kept;
	struct inode_change change;
};

static void loser_begin(struct loser *loser, struct inode *inode)
{
	loser->inode = inode;
	loser->is_kept = inode && inode_keep(inode);
	inode_change_begin(inode, &loser->change, 0, 0);
}

static void loser_end(struct loser *loser)
{
	struct statx stat;

	inode_change_end(&loser->change);
	if (!loser->is_kept)
		return;
	/* Asked afterwards: of two who remove two names at the same time, the
	 * second finds none left. */
	if (!inode_stat(loser->inode, &stat) && stat.stx_nlink > 0)
		inode_unkeep(loser->inode);
}

static int remove_run(struct request *request, int flags)
{
	auto_inode struct inode *parent =
		inode_find(request->fs->inodes, request->header.nodeid);
	auto_inode struct inode *victim = NULL;
	struct loser loser;
	int err;

	if (!parent)
		return -ESTALE;
	victim = inode_peek(parent, request->names[0]);
	loser_begin(&loser, victim);
	err = unlink_at(parent, request->names[0], flags);
	loser_end(&loser);
	return err;
}

void op_unlink(struct request *request)
{
	request_finish(request, remove_run(request, 0));
}

void op_rmdir(struct request *request)
{
	request_finish(request, remove_run(request, AT_REMOVEDIR));
}

/* Where a rename comes from and goes to. */
struct renaming {
	struct inode *from;
	struct inode *to;
	const char *from_name;
	const char *to_name;
	unsigned flags;
};

static int rename_at(const struct renaming *renaming)
{
	int from_fd = inode_descriptor(renaming->from);
	int to_fd;
	int err;

	if (from_fd < 0)
		return from_fd;
	to_fd = inode_descriptor(renaming->to);
	if (to_fd < 0) {
		inode_descriptor_done(renaming->from);
		return to_fd;
	}
	err = renameat2(from_fd, renaming->from_name, to_fd, renaming->to_name,
	                renaming->flags);
	if (err)
		err = -errno;
	inode_descriptor_done(renaming->to);
	inode_descriptor_done(renaming->from);
	return err;
}

/* Renaming moves the ctime of what is renamed, and of what it replaces. */
static int rename_bracketed(const struct renaming *renaming)
{
	auto_inode struct inode *child =
		inode_peek(renaming->from, renaming->from_name);
	auto_inode struct inode *victim =
		inode_peek(renaming->to, renaming->to_name);
	struct inode_change change;
	struct loser loser;
	int err;

	inode_change_begin(child, &change, 0, 0);
	/* Two names of one file: one bracket, and nothing happens. */
	loser_begin(&loser, victim == child ? NULL : victim);
	err = rename_at(renaming);
	loser_end(&loser);
	inode_change_end(&change);
	return err;
}

static int rename_run(struct request *request, uint64_t to_id, unsigned flags)
{
	struct fs *fs = request->fs;
	auto_inode struct inode *from =
		inode_find(fs->inodes, request->header.nodeid);
	auto_inode struct inode *to = inode_find(fs->inodes, to_id);
	struct renaming renaming = {
		.from = from,
		.to = to,
		.from_name = request->names[0],
		.to_name = request->names[1],
		.flags = flags,
	};

	if (control_is_node(to_id) ||
	    control_is_name(fs, to_id, request->names[1]))
		return -EPERM;
	if (!from || !to)
		return -ESTALE;
	return rename_bracketed(&renaming);
}

void op_rename(struct request *request)
{
	const struct fuse_rename_in *in = request->in;

	request_finish(request, rename_run(request, in->newdir, 0));
}

void op_rename2(struct request *request)
{
	const struct fuse_rename2_in *in = request->in;

	request_finish(request, rename_run(request, in->newdir, in->flags));
}

/* Bytes of the target, without a terminator, or -errno. */
static ssize_t readlink_run(struct request *request, char *ret_target,
                            size_t size)
{
	auto_inode struct inode *inode =
		inode_find(request->fs->inodes, request->header.nodeid);
	ssize_t length;
	int fd;

	if (!inode)
		return -ESTALE;
	fd = inode_descriptor(inode);
	if (fd < 0)
		return fd;
	length = readlinkat(fd, "", ret_target, size);
	if (length < 0)
		length = -errno;
	inode_descriptor_done(inode);
	return length;
}

void op_readlink(struct request *request)
{
	char target[PATH_MAX];
	/* The kernel's buffer is a page and it terminates the target itself. */
	ssize_t length = readlink_run(request, target, sizeof(target) - 1);

	if (length < 0)
		request_fail(request, (int)length);
	else
		(void)request_reply(request, target, (size_t)length);
}
