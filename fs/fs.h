/*
 * fs.h - what every operation can reach
 *
 * Made once by main.c before the first request, constant afterwards except
 * where a member guards itself.
 */
#ifndef FS_FS_H
#define FS_FS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/engine.h"

struct control;
struct handle_table;
struct inode_table;
struct transport_dev;

struct fs {
	struct engine *engine;
	struct options *options;
	struct inode_table *inodes;
	struct handle_table *handles;
	struct control *control; /* NULL with control=off */
	struct transport_dev *transport;

	int source_fd; /* O_PATH, the root of SOURCE; all access starts here */
	int proc_fd;   /* O_PATH of /proc/self/fd, to reopen descriptors */
	int fuse_fd;   /* the session's descriptor, non-blocking */
	uid_t mounter; /* owns the control directory */
	bool is_privileged;       /* may act as the calling user */
	bool default_permissions; /* the kernel checks access before it asks */

	/* Called once, by whichever lane answered INIT: 0, the mount works, or
	 * -errno, it never will (and the log says why). */
	void (*on_init)(struct fs *fs, int error);

	/* What INIT negotiated; written by the INIT request, which the kernel
	 * sends before any other, hence relaxed. */
	atomic_bool allows_direct_mmap; /* direct files may be mapped shared */
	atomic_bool kills_privileges;   /* clearing suid and sgid is ours */
};

/* Monotonic nanoseconds to a FUSE validity: seconds and nanoseconds from the
 * milliseconds of an option. */
static inline void fs_validity(int64_t milliseconds, uint64_t *ret_seconds,
                               uint32_t *ret_nanoseconds)
{
	*ret_seconds = (uint64_t)milliseconds / 1000;
	*ret_nanoseconds = (uint32_t)(milliseconds % 1000) * 1000000;
}

#endif
