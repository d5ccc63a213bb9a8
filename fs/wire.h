/*
 * wire.h - what an older <linux/fuse.h> lacks
 *
 * Debian 12's header speaks protocol 7.38, the kernels we meet up to 7.46.
 * Numbers are those of the kernel's include/uapi/linux/fuse.h.
 */
#ifndef FS_WIRE_H
#define FS_WIRE_H

#include <linux/fuse.h>

#ifndef FUSE_DIRECT_IO_ALLOW_MMAP
#define FUSE_DIRECT_IO_ALLOW_MMAP (1ULL << 36)
#endif
#ifndef FUSE_NO_EXPORT_SUPPORT
#define FUSE_NO_EXPORT_SUPPORT (1ULL << 38)
#endif
#ifndef FUSE_HAS_RESEND
#define FUSE_HAS_RESEND (1ULL << 39)
#endif

/* FUSE_STATX, protocol 7.39. */
enum { WIRE_STATX = 52 };

struct wire_sx_time {
	int64_t tv_sec;
	uint32_t tv_nsec;
	int32_t reserved;
};

struct wire_statx {
	uint32_t mask;
	uint32_t blksize;
	uint64_t attributes;
	uint32_t nlink;
	uint32_t uid;
	uint32_t gid;
	uint16_t mode;
	uint16_t spare0[1];
	uint64_t ino;
	uint64_t size;
	uint64_t blocks;
	uint64_t attributes_mask;
	struct wire_sx_time atime;
	struct wire_sx_time btime;
	struct wire_sx_time ctime;
	struct wire_sx_time mtime;
	uint32_t rdev_major;
	uint32_t rdev_minor;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint64_t spare2[14];
};

struct wire_statx_in {
	uint32_t getattr_flags;
	uint32_t reserved;
	uint64_t fh;
	uint32_t sx_flags;
	uint32_t sx_mask;
};

struct wire_statx_out {
	uint64_t attr_valid;
	uint32_t attr_valid_nsec;
	uint32_t flags;
	uint64_t spare[2];
	struct wire_statx stat;
};

/* FUSE_COPY_FILE_RANGE_64, protocol 7.45: same request as the older opcode,
 * the count in the reply has 64 bits. */
enum { WIRE_COPY_FILE_RANGE_64 = 53 };

struct wire_copy_file_range_out {
	uint64_t bytes_copied;
};

#endif
