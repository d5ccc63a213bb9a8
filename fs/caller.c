#include "fs/caller.h"

#include <assert.h>
#include <errno.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/fs.h"
#include "fs/request.h"

/* The wrappers of the C library change every thread; the calls themselves,
 * only the one that makes them.  They give back the old id and no error. */
static uid_t thread_set_uid(uid_t uid)
{
	return (uid_t)syscall(SYS_setfsuid, uid);
}

static gid_t thread_set_gid(gid_t gid)
{
	return (gid_t)syscall(SYS_setfsgid, gid);
}

static void capabilities_get(struct __user_cap_data_struct *ret_data)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	long err = syscall(SYS_capget, &header, ret_data);

	assert(!err);
}

static void capabilities_set(const struct __user_cap_data_struct *data)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	/* Cannot fail: what is raised is always permitted. */
	long err = syscall(SYS_capset, &header, data);

	assert(!err);
}

/*
 * Leaving uid 0 took every capability on files away.  Two come back, for what
 * the kernel has checked already with more knowledge than we have: access to
 * the directory, and the right to make devices.  CAP_FSETID stays away even
 * when nothing was taken (we were not uid 0), or a file made in somebody
 * else's group would keep its setgid bit.
 */
static void capabilities_as_caller(struct caller *caller)
{
	const uint32_t wanted = CAP_TO_MASK(CAP_DAC_OVERRIDE) |
	                        CAP_TO_MASK(CAP_MKNOD);
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	capabilities_get(data);
	data[0].effective |= caller->old_effective[0] & wanted;
	data[0].effective &= ~CAP_TO_MASK(CAP_FSETID);
	capabilities_set(data);
}

static void capabilities_save(struct caller *caller)
{
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	capabilities_get(data);
	caller->old_effective[0] = data[0].effective;
	caller->old_effective[1] = data[1].effective;
}

static void capabilities_restore(const struct caller *caller)
{
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	capabilities_get(data);
	data[0].effective = caller->old_effective[0];
	data[1].effective = caller->old_effective[1];
	capabilities_set(data);
}

void caller_enter(struct caller *caller, const struct request *request,
                  mode_t mask)
{
	uid_t uid = request->header.uid;
	gid_t gid = request->header.gid;

	caller->old_umask = umask(mask);
	caller->is_switched = request->fs->is_privileged &&
	                      (uid != geteuid() || gid != getegid());
	if (!caller->is_switched)
		return;

	capabilities_save(caller);
	caller->old_gid = thread_set_gid(gid);
	caller->old_uid = thread_set_uid(uid);
	/* An impossible id asks and changes nothing.  Going on as root would
	 * make files that the caller must not own. */
	assert(thread_set_uid((uid_t)-1) == uid);
	assert(thread_set_gid((gid_t)-1) == gid);
	if (uid != caller->old_uid)
		capabilities_as_caller(caller);
}

void caller_leave(struct caller *caller)
{
	(void)umask(caller->old_umask);
	if (!caller->is_switched)
		return;
	(void)thread_set_uid(caller->old_uid);
	(void)thread_set_gid(caller->old_gid);
	assert(thread_set_uid((uid_t)-1) == caller->old_uid);
	capabilities_restore(caller);
}
