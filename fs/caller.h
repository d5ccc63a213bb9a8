/*
 * caller.h - acting as the program that called
 *
 * Files must be created as the calling user, with his umask.  Workers have a
 * umask and credentials of their own (unshare(CLONE_FS); raw setfsuid), so one
 * caller never shows through to another.  CAP_DAC_OVERRIDE is kept: the kernel
 * has checked access already, with groups that we do not know.
 *
 *	struct caller caller;
 *	caller_enter(&caller, request, umask);
 *	fd = openat(...O_CREAT...);
 *	caller_leave(&caller);
 */
#ifndef FS_CALLER_H
#define FS_CALLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct request;

struct caller {
	uid_t old_uid;
	gid_t old_gid;
	mode_t old_umask;
	uint32_t old_effective[2]; /* capabilities */
	bool is_switched;
};

/* Only on a worker.  Without privileges only the umask is taken over. */
void caller_enter(struct caller *caller, const struct request *request,
                  mode_t umask);
void caller_leave(struct caller *caller);

#endif
