#include "fs/mount.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>

#include <fuse_lowlevel.h>

#include "engine/cleanup.h"
#include "engine/log.h"
#include "engine/mountinfo.h"

/* <sys/mount.h> has them since glibc 2.36. */
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif

#define MOUNT_TYPE  "fuse.aheadfs"
#define MOUNTS_PATH "/proc/self/mountinfo"

enum {
	/* INIT cannot ask for more than 128 KiB; a cached reader needs requests
	 * of 1 MiB to keep up with SOURCE. */
	READ_AHEAD_KB = 1024,
};

/*
 * Before mounting
 */

/* The topmost mount at @point; is it an aheadfs? */
static bool mount_find(const char *point, unsigned *ret_major,
                       unsigned *ret_minor, bool *ret_is_ours)
{
	struct mountinfo mounts;
	bool is_found = false;

	if (mountinfo_open(MOUNTS_PATH, &mounts) < 0)
		return false;
	while (mountinfo_next(&mounts)) {
		if (strcmp(mounts.point, point) != 0)
			continue;
		is_found = true;
		*ret_major = mounts.major;
		*ret_minor = mounts.minor;
		*ret_is_ours = strcmp(mounts.type, MOUNT_TYPE) == 0;
	}
	mountinfo_close(&mounts);
	return is_found;
}

static int point_fail(const char *point, int error)
{
	switch (error) {
	case -ENOTCONN:
		log_message(LOG_ERR, "%s is a dead mount: run umount -l %s",
		            point, point);
		break;
	case -EBUSY:
		log_message(LOG_ERR, "%s is already mounted: unmount it first",
		            point);
		break;
	default:
		log_message(LOG_ERR, "cannot use mountpoint %s: %s%s", point,
		            strerror(-error),
		            error == -ENOENT ? ": create it first" : "");
	}
	return error;
}

static int point_open(struct mount *mount, const char *point)
{
	struct stat stat_buffer;
	unsigned major, minor;
	bool is_ours = false;

	mount->point = realpath(point, NULL);
	if (!mount->point)
		return point_fail(point, -errno);
	(void)mount_find(mount->point, &major, &minor, &is_ours);

	int err = stat(mount->point, &stat_buffer) < 0 ? -errno : 0;

	/* A mount of another user refuses us: still a living one. */
	if (is_ours && err != -ENOTCONN)
		return point_fail(mount->point, -EBUSY);
	if (err)
		return point_fail(mount->point, err);
	if (!S_ISDIR(stat_buffer.st_mode))
		return point_fail(mount->point, -ENOTDIR);
	return 0;
}

static int source_fail(const char *source, int error)
{
	log_message(LOG_ERR, "cannot use source %s: %s", source,
	            strerror(-error));
	return error;
}

/* Without a clone a walk below SOURCE would enter our own mount, and wait for
 * an answer that only we can give. */
static int source_check_nesting(const struct mount *mount)
{
	const char *source = mount->source;
	size_t length = strcmp(source, "/") == 0 ? 0 : strlen(source);

	if (strncmp(mount->point, source, length) != 0 ||
	    mount->point[length] != '/')
		return 0;
	log_message(LOG_ERR,
	            "mountpoint %s is inside source %s: that needs a "
	            "private view, which only root can have",
	            mount->point, source);
	return -EINVAL;
}

static int source_open(struct mount *mount, const char *source)
{
	struct stat stat_buffer;
	int fd;

	mount->source = realpath(source, NULL);
	if (!mount->source)
		return source_fail(source, -errno);
	mount->source_fd =
		open(mount->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* An O_PATH open does not ask a filesystem whether it lives. */
	if (mount->source_fd < 0 || fstat(mount->source_fd, &stat_buffer) < 0)
		return source_fail(mount->source, -errno);
	if (!mount->is_privileged)
		return source_check_nesting(mount);
	fd = (int)syscall(SYS_open_tree, AT_FDCWD, mount->source,
	                  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd >= 0) {
		close(mount->source_fd);
		mount->source_fd = fd;
		return 0;
	}
	log_message(LOG_INFO,
	            "no private view of %s (open_tree: %s): mounts below it "
	            "are visible",
	            mount->source, strerror(errno));
	return source_check_nesting(mount);
}

int mount_open(const char *source, const char *point, struct mount **ret_mount)
{
	struct mount *mount = calloc(1, sizeof(*mount));

	if (!mount)
		return source_fail(source, -ENOMEM);
	mount->source_fd = -1;
	mount->fuse_fd = -1;
	mount->is_privileged = geteuid() == 0;

	int err = point_open(mount, point);

	if (!err)
		err = source_open(mount, source);
	if (err) {
		mount_close(mount);
		return err;
	}
	*ret_mount = mount;
	return 0;
}

void mount_close(struct mount *mount)
{
	if (!mount)
		return;
	assert(!mount->is_mounted);
	if (mount->session)
		fuse_session_destroy(mount->session);
	auto_close_fd(&mount->fuse_fd);
	auto_close_fd(&mount->source_fd);
	free(mount->source);
	free(mount->point);
	free(mount);
}

/*
 * Mounting
 */

/*
 * libfuse and fusermount3 write what went wrong to stderr.  While they work,
 * stderr is a file in memory, so that it can become part of one message.
 */
struct capture {
	int file;
	int terminal;
};

static void capture_begin(struct capture *capture)
{
	capture->file = memfd_create("stderr", MFD_CLOEXEC);
	capture->terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (capture->file >= 0 && capture->terminal >= 0)
		(void)dup2(capture->file, STDERR_FILENO);
}

/* The last line goes to @ret_text, which stays empty if there is none. */
static void capture_end(struct capture *capture, char *ret_text, size_t size)
{
	ssize_t count = 0;

	if (capture->terminal >= 0)
		(void)dup2(capture->terminal, STDERR_FILENO);
	if (capture->file >= 0)
		count = pread(capture->file, ret_text, size - 1, 0);
	while (count > 0 && ret_text[count - 1] == '\n')
		count--;
	ret_text[count > 0 ? count : 0] = '\0';

	char *last = strrchr(ret_text, '\n');

	if (last)
		memmove(ret_text, last + 1, strlen(last + 1) + 1);
	auto_close_fd(&capture->file);
	auto_close_fd(&capture->terminal);
}

/* The words for libfuse: ours first, so that the user's win. */
static int session_words(const struct mount *mount,
                         const struct mount_options *options, char **ret_words)
{
	auto_free char *words = strdup("subtype=aheadfs,nosuid,nodev");
	auto_free char *name = NULL;
	int err = words ? 0 : -1;

	if (options->wants_privileges && !mount->is_privileged)
		log_message(LOG_WARNING, "suid and dev are for root: the mount "
		                         "is nosuid and nodev");
	if (asprintf(&name, "fsname=%s", mount->source) < 0) {
		name = NULL;
		return -ENOMEM;
	}
	if (!err && !options->has_name)
		err = fuse_opt_add_opt_escaped(&words, name);
	if (!err && mount->default_permissions)
		err = fuse_opt_add_opt(&words, "default_permissions");
	if (!err && options->words)
		err = fuse_opt_add_opt(&words, options->words);
	if (err)
		return -ENOMEM;
	*ret_words = steal_ptr(&words);
	return 0;
}

/* 0 or -errno; @ret_text is what libfuse had to say. */
static int session_mount(struct mount *mount, const char *words, char *ret_text,
                         size_t size)
{
	static const struct fuse_lowlevel_ops none;
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct capture capture;
	int err = -ENOMEM;

	if (!fuse_opt_add_arg(&args, "aheadfs") &&
	    !fuse_opt_add_arg(&args, "-o") && !fuse_opt_add_arg(&args, words)) {
		capture_begin(&capture);
		mount->session =
			fuse_session_new(&args, &none, sizeof(none), NULL);
		errno = 0;
		if (!mount->session)
			err = -EINVAL;
		else if (fuse_session_mount(mount->session, mount->point) < 0)
			err = errno ? -errno : -EIO;
		else
			err = 0;
		capture_end(&capture, ret_text, size);
	}
	fuse_opt_free_args(&args);
	return err;
}

/* Lanes use a descriptor of their own: libfuse closes its one to unmount. */
static int session_take_fd(struct mount *mount)
{
	int fd = fcntl(fuse_session_fd(mount->session), F_DUPFD_CLOEXEC, 3);
	int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);

	mount->fuse_fd = fd;
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

int mount_start(struct mount *mount, const struct mount_options *options)
{
	auto_free char *words = NULL;
	char text[512] = "";
	bool is_ours;

	assert(!mount->session);
	/* For a privileged daemon SOURCE checks nothing. */
	mount->default_permissions = options->default_permissions ||
	                             options->allow_other ||
	                             mount->is_privileged;

	int err = session_words(mount, options, &words);

	if (!err)
		err = session_mount(mount, words, text, sizeof(text));
	if (err) {
		log_message(LOG_ERR, "cannot mount on %s: %s", mount->point,
		            text[0] ? text : strerror(-err));
		return err;
	}
	mount->is_mounted = true;
	mount->has_device = mount_find(mount->point, &mount->major,
	                               &mount->minor, &is_ours) &&
	                    is_ours;
	err = session_take_fd(mount);
	if (err)
		log_message(LOG_ERR, "cannot keep the descriptor of %s: %s",
		            mount->point, strerror(-err));
	return err;
}

void mount_tune(const struct mount *mount)
{
	char path[64];
	int fd;

	if (!mount->has_device)
		return;
	(void)snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb",
	               mount->major, mount->minor);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || dprintf(fd, "%d", READ_AHEAD_KB) < 0)
		log_message(LOG_INFO,
		            "the kernel reads at most 128 KiB ahead through "
		            "its own cache (%s): as root, echo %d > %s",
		            strerror(errno), READ_AHEAD_KB, path);
	auto_close_fd(&fd);
}

/*
 * Unmounting
 */

/* False when somebody else unmounted it already, perhaps lazily, or covered it:
 * what is at the mountpoint now must not be touched. */
static bool mount_is_on_top(const struct mount *mount)
{
	unsigned major, minor;
	bool is_ours;

	return mount_find(mount->point, &major, &minor, &is_ours) && is_ours &&
	       major == mount->major && minor == mount->minor;
}

/* The kernel has ended the connection: unmounted, or aborted. */
static bool mount_is_over(const struct mount *mount)
{
	struct pollfd poll_fd = {.fd = mount->fuse_fd};

	return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLERR);
}

void mount_stop(struct mount *mount)
{
	if (!mount || !mount->is_mounted)
		return;
	mount->is_mounted = false;
	if (mount->has_device && !mount_is_on_top(mount) &&
	    !mount_is_over(mount))
		return;

	/* Of a connection that is over libfuse only lets go, so that the dead
	 * mount of an aborted one would stay. */
	fuse_session_unmount(mount->session);
	if (mount->has_device && mount_is_on_top(mount) &&
	    umount2(mount->point, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
		log_message(LOG_ERR,
		            "cannot unmount %s (%s): run fusermount3 -uz %s",
		            mount->point, strerror(errno), mount->point);
}
