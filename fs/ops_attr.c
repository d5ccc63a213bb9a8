#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "engine/options.h"
#include "fs/descriptor.h"
#include "fs/edit.h"
#include "fs/fs.h"
#include "fs/handle.h"
#include "fs/inode.h"
#include "fs/ops.h"
#include "fs/request.h"

static struct inode *request_inode(const struct request *request)
{
	return inode_find(request->fs->inodes, request->header.nodeid);
}

static int attributes_get(const struct request *request, struct statx *ret_stat)
{
	auto_inode struct inode *inode = request_inode(request);
	int err;

	if (!inode)
		return -ESTALE;
	err = inode_stat(inode, ret_stat);
	if (err)
		return err;
	inode_check(inode, ret_stat);
	return 0;
}

static void attributes_reply(struct request *request, const struct statx *stat)
{
	struct fuse_attr_out out = {.dummy = 0};

	fs_validity(option_get(request->fs->options, attr_timeout),
	            &out.attr_valid, &out.attr_valid_nsec);
	inode_attributes(stat, &out.attr);
	/* Attributes are no reference: nothing to take back if it fails. */
	(void)request_reply(request, &out, sizeof(out));
}

void op_getattr(struct request *request)
{
	struct statx stat;
	int err = attributes_get(request, &stat);

	if (err)
		request_fail(request, err);
	else
		attributes_reply(request, &stat);
}

static struct wire_sx_time wire_time(const struct statx_timestamp *time)
{
	return (struct wire_sx_time){
		.tv_sec = time->tv_sec,
		.tv_nsec = time->tv_nsec,
	};
}

static void wire_statx_fill(const struct statx *stat, struct wire_statx *ret)
{
	*ret = (struct wire_statx){
		.mask = stat->stx_mask & INODE_STATX_MASK,
		.blksize = stat->stx_blksize,
		.attributes = stat->stx_attributes,
		.nlink = stat->stx_nlink,
		.uid = stat->stx_uid,
		.gid = stat->stx_gid,
		.mode = stat->stx_mode,
		.ino = stat->stx_ino,
		.size = stat->stx_size,
		.blocks = stat->stx_blocks,
		.attributes_mask = stat->stx_attributes_mask,
		.atime = wire_time(&stat->stx_atime),
		.btime = wire_time(&stat->stx_btime),
		.ctime = wire_time(&stat->stx_ctime),
		.mtime = wire_time(&stat->stx_mtime),
		.rdev_major = stat->stx_rdev_major,
		.rdev_minor = stat->stx_rdev_minor,
		.dev_major = stat->stx_dev_major,
		.dev_minor = stat->stx_dev_minor,
	};
}

void op_statx(struct request *request)
{
	struct wire_statx_out out = {.flags = 0};
	struct statx stat;
	int err = attributes_get(request, &stat);

	if (err) {
		request_fail(request, err);
		return;
	}
	fs_validity(option_get(request->fs->options, attr_timeout),
	            &out.attr_valid, &out.attr_valid_nsec);
	wire_statx_fill(&stat, &out.stat);
	/* Attributes are no reference: nothing to take back if it fails. */
	(void)request_reply(request, &out, sizeof(out));
}

/* A SETATTR on its way. */
struct setting {
	struct fs *fs;
	const struct fuse_setattr_in *in;
	struct inode *inode;
	int fd; /* O_PATH, of the inode */
};

static int set_owner(const struct setting *setting)
{
	uint32_t valid = setting->in->valid;
	uid_t uid = valid & FATTR_UID ? setting->in->uid : (uid_t)-1;
	gid_t gid = valid & FATTR_GID ? setting->in->gid : (gid_t)-1;

	if (!(valid & (FATTR_UID | FATTR_GID)))
		return 0;
	/* Clears suid and sgid as well: whatever we are, SOURCE sees to it. */
	if (fchownat(setting->fd, "", uid, gid, AT_EMPTY_PATH))
		return -errno;
	return 0;
}

/* What ftruncate(2) can work on: the program's own descriptor, which may have
 * more rights than the file has now, or @ret_own, which is then open. */
static int size_descriptor(const struct setting *setting, int *ret_own)
{
	struct handle *handle = NULL;

	if (setting->in->valid & FATTR_FH)
		handle = handle_find(setting->fs->handles, setting->in->fh,
		                     HANDLE_FILE);
	if (handle && handle->inode == setting->inode && handle->fd >= 0)
		return handle->fd;
	*ret_own = inode_reopen(setting->inode, O_WRONLY);
	return *ret_own;
}

static int set_size(const struct setting *setting)
{
	auto_close int own_fd = -1;
	int fd;
	int err;

	if (!(setting->in->valid & FATTR_SIZE))
		return 0;
	fd = size_descriptor(setting, &own_fd);
	if (fd < 0)
		return fd;
	if (setting->in->valid & FATTR_KILL_SUIDGID) {
		err = edit_kill_privileges(setting->fs, fd);
		if (err)
			return err;
	}
	return ftruncate(fd, (off_t)setting->in->size) ? -errno : 0;
}

static int set_mode(const struct setting *setting)
{
	char name[DESCRIPTOR_NAME_BYTES];
	mode_t mode = setting->in->mode & 07777;

	if (!(setting->in->valid & FATTR_MODE))
		return 0;
	/* Older kernels would let us, and nobody would respect the result. */
	if (S_ISLNK(setting->inode->type))
		return -EOPNOTSUPP;
	descriptor_name(setting->fd, name);
	return fchmodat(setting->fs->proc_fd, name, mode, 0) ? -errno : 0;
}

static int set_times(const struct setting *setting)
{
	const struct fuse_setattr_in *in = setting->in;
	struct timespec times[2] = {
		{.tv_sec = (time_t)in->atime, .tv_nsec = UTIME_OMIT},
		{.tv_sec = (time_t)in->mtime, .tv_nsec = UTIME_OMIT},
	};

	if (in->valid & FATTR_ATIME_NOW)
		times[0].tv_nsec = UTIME_NOW;
	else if (in->valid & FATTR_ATIME)
		times[0].tv_nsec = in->atimensec;

	/* ftruncate(2) has set mtime already, and whoever may truncate need
	 * not be the owner, who alone may set one time without the other. */
	if (in->valid & FATTR_MTIME_NOW)
		times[1].tv_nsec = in->valid & FATTR_SIZE ? UTIME_OMIT
		                                          : UTIME_NOW;
	else if (in->valid & FATTR_MTIME)
		times[1].tv_nsec = in->mtimensec;

	if (times[0].tv_nsec == UTIME_OMIT && times[1].tv_nsec == UTIME_OMIT)
		return 0;
	return utimensat(setting->fd, "", times, AT_EMPTY_PATH) ? -errno : 0;
}

/* Owner before mode: a new owner clears suid.  Times last: everything else
 * moves them. */
static int setting_apply(const struct setting *setting)
{
	int err = set_owner(setting);

	if (!err)
		err = set_size(setting);
	if (!err)
		err = set_mode(setting);
	if (!err)
		err = set_times(setting);
	return err;
}

static int setting_run(const struct setting *setting)
{
	const struct fuse_setattr_in *in = setting->in;
	struct inode_change change;
	uint64_t length = 0;
	uint64_t offset = 0;
	struct statx stat;
	int err;

	if (in->valid & FATTR_SIZE) {
		err = inode_stat(setting->inode, &stat);
		if (err)
			return err;
		offset = in->size < stat.stx_size ? in->size : stat.stx_size;
		length = FILE_TO_END;
	}
	inode_change_begin(setting->inode, &change, offset, length);
	err = setting_apply(setting);
	inode_change_end(&change);
	return err;
}

static int setattr_run(struct request *request, struct statx *ret_stat)
{
	auto_inode struct inode *inode = request_inode(request);
	struct setting setting = {
		.fs = request->fs,
		.in = request->in,
		.inode = inode,
	};
	int err;

	if (!inode)
		return -ESTALE;
	if (setting.in->valid & FATTR_SIZE && setting.in->size > INT64_MAX)
		return -EFBIG;
	setting.fd = inode_descriptor(inode);
	if (setting.fd < 0)
		return setting.fd;
	err = setting_run(&setting);
	inode_descriptor_done(inode);
	return err ? err : inode_stat(inode, ret_stat);
}

void op_setattr(struct request *request)
{
	struct statx stat;
	int err = setattr_run(request, &stat);

	if (err)
		request_fail(request, err);
	else
		attributes_reply(request, &stat);
}

static int access_run(const struct request *request)
{
	const struct fuse_access_in *in = request->in;
	auto_inode struct inode *inode = request_inode(request);
	char name[DESCRIPTOR_NAME_BYTES];
	int err = 0;
	int fd;

	if (!inode)
		return -ESTALE;
	fd = inode_descriptor(inode);
	if (fd < 0)
		return fd;
	descriptor_name(fd, name);
	if (faccessat(request->fs->proc_fd, name, (int)in->mask, AT_EACCESS))
		err = -errno;
	inode_descriptor_done(inode);
	return err;
}

/* Asked only without default_permissions: then the caller is our own user, for
 * whom SOURCE answers, or root, whom we may not judge. */
void op_access(struct request *request)
{
	if (request->header.uid == 0 && !request->fs->is_privileged)
		request_finish(request, 0);
	else
		request_finish(request, access_run(request));
}

static int statfs_run(const struct request *request, struct statvfs *ret_stat)
{
	auto_inode struct inode *inode = request_inode(request);
	int err = 0;
	int fd;

	if (!inode)
		return -ESTALE;
	fd = inode_descriptor(inode);
	if (fd < 0)
		return fd;
	if (fstatvfs(fd, ret_stat))
		err = -errno;
	inode_descriptor_done(inode);
	return err;
}

void op_statfs(struct request *request)
{
	struct fuse_statfs_out out = {.st = {.blocks = 0}};
	struct statvfs stat;
	int err = statfs_run(request, &stat);

	if (err) {
		request_fail(request, err);
		return;
	}
	out.st.blocks = stat.f_blocks;
	out.st.bfree = stat.f_bfree;
	out.st.bavail = stat.f_bavail;
	out.st.files = stat.f_files;
	out.st.ffree = stat.f_ffree;
	out.st.bsize = (uint32_t)stat.f_bsize;
	out.st.namelen = (uint32_t)stat.f_namemax;
	out.st.frsize = (uint32_t)stat.f_frsize;
	(void)request_reply(request, &out, sizeof(out));
}
