#include "engine/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

/* Two ticks of the slowest kernel clock (HZ=100). */
enum { TICKS_NS = 20000000 };

#define XFS_MAGIC 0x58465342

static uint64_t stamp_ns(const struct statx_timestamp *stamp)
{
	return (uint64_t)stamp->tv_sec * 1000000000 + stamp->tv_nsec;
}

void identity_of(const struct statx *stat, struct identity *ret_identity)
{
	*ret_identity = (struct identity){
		.size = stat->stx_size,
		.mtime_ns = stamp_ns(&stat->stx_mtime),
		.ctime_ns = stamp_ns(&stat->stx_ctime),
	};
}

int identity_read(int fd, struct identity *ret_identity)
{
	struct statx stat;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, IDENTITY_MASK,
	          &stat) < 0)
		return -errno;
	identity_of(&stat, ret_identity);
	return 0;
}

bool identity_equal(const struct identity *a, const struct identity *b)
{
	return a->size == b->size && a->mtime_ns == b->mtime_ns &&
	       a->ctime_ns == b->ctime_ns;
}

bool identity_is_settled(const struct identity *identity, uint64_t now_ns,
                         bool has_fine_stamps)
{
	return has_fine_stamps || now_ns > identity->ctime_ns + TICKS_NS;
}

static bool kernel_has_fine_stamps(void)
{
	struct utsname name;
	unsigned major;
	unsigned minor;

	if (uname(&name) < 0)
		return false;
	if (sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return false;
	return major > 6 || (major == 6 && minor >= 13);
}

bool identity_has_fine_stamps(int fd)
{
	struct statfs stat;

	if (!kernel_has_fine_stamps() || fstatfs(fd, &stat) < 0)
		return false;
	switch ((unsigned long)stat.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case TMPFS_MAGIC:
		return true;
	default:
		return false;
	}
}
