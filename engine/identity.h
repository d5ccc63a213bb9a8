/*
 * identity.h - has somebody changed the file behind the mount?
 *
 * Size, mtime and ctime in nanoseconds.  mtime can be set back, ctime cannot.
 * Where the filesystem's clock is coarse, two changes within one tick look the
 * same, so an identity is settled only when its ctime is older than that; an
 * unsettled one proves nothing the next time it is asked.
 *
 * Linux 6.13 made the timestamps of ext4, XFS, btrfs and tmpfs fine: a change
 * after a stat always shows.  There is nothing to probe this by, hence the one
 * comparison of versions in the house.
 */
#ifndef ENGINE_IDENTITY_H
#define ENGINE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct identity {
	uint64_t size;
	uint64_t mtime_ns;
	uint64_t ctime_ns;
};

/* What statx(2) must be asked for. */
#define IDENTITY_MASK (STATX_SIZE | STATX_MTIME | STATX_CTIME | STATX_INO)

/* Of @fd, without asking a server: never blocks on a network filesystem.  0 or
 * -errno. */
int identity_read(int fd, struct identity *ret_identity);

void identity_of(const struct statx *stat, struct identity *ret_identity);
bool identity_equal(const struct identity *a, const struct identity *b);

/* A later change cannot look the same: @now_ns is CLOCK_REALTIME. */
bool identity_is_settled(const struct identity *identity, uint64_t now_ns,
                         bool has_fine_stamps);

/* Does the kernel, on the filesystem of @fd, make fine timestamps? */
bool identity_has_fine_stamps(int fd);

#endif
