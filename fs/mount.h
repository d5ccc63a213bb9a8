/*
 * mount.h - SOURCE opened, MOUNTPOINT mounted, and back again
 *
 * SOURCE is opened before anything is mounted, so a directory can be mounted
 * over itself.  A privileged daemon opens a private clone of the one mount
 * that SOURCE is on: it shows no mounts below it and never our own one.
 *
 * libfuse mounts (without privileges through fusermount3) and unmounts; it
 * never sees a request.  Nothing here looks at the mountpoint once it is
 * mounted: that would ask the daemon, which may not serve yet.
 *
 *	mount_open("/data", "/data", &mount);
 *	mount_start(mount, &options);		requests come on fuse_fd
 *	mount_tune(mount);			after INIT is answered
 *	mount_stop(mount);
 *	mount_close(mount);
 *
 * Every failure is logged with its cause and remedy.
 */
#ifndef FS_MOUNT_H
#define FS_MOUNT_H

#include <stdbool.h>

struct fuse_session;

/* What -o says to mount(8), the kernel and libfuse.  All zero to begin with. */
struct mount_options {
	char *words; /* for libfuse, separated by commas, escaped */
	bool allow_other;
	bool default_permissions;
	bool has_name;
	bool wants_privileges; /* suid or dev */
};

/* Add one word of -o.  -ENOENT: not a mount option; -ENOMEM. */
int mount_options_add(struct mount_options *options, const char *word);
void mount_options_done(struct mount_options *options);

struct mount {
	int source_fd; /* O_PATH */
	int fuse_fd;   /* non-blocking; -1 until mount_start() */
	bool is_privileged;
	bool default_permissions;

	/* mount.c's. */
	char *source; /* absolute, like point */
	char *point;
	struct fuse_session *session;
	bool is_mounted;
	bool has_device;
	unsigned major;
	unsigned minor;
};

int mount_open(const char *source, const char *point, struct mount **ret_mount);
int mount_start(struct mount *mount, const struct mount_options *options);

/* Allow the kernel's own cache more readahead than INIT can ask for. */
void mount_tune(const struct mount *mount);

/* Unmount at once, even if programs are still using it.  Accepts NULL. */
void mount_stop(struct mount *mount);
void mount_close(struct mount *mount);

#endif
