#include "fs/ops.h"

#include "engine/cleanup.h"
#include "fs/wire.h"

/* SETXATTR_EXT is not negotiated: the structure is always the short one. */
#define SETXATTR_IN_BYTES FUSE_COMPAT_SETXATTR_IN_SIZE

/* INIT grew with the protocol; its first four words were always there. */
enum { INIT_IN_BYTES = 16 };

enum { ON_WORKER = false, ON_LANE = true };

#define ROW(opcode, name, in_size, names, where) \
	[opcode] = {#name, op_##name, in_size, names, where}
#define BODY(type) sizeof(struct type)

static const struct operation operations[] = {
	ROW(FUSE_INIT, init, INIT_IN_BYTES, 0, ON_LANE),
	ROW(FUSE_DESTROY, destroy, 0, 0, ON_LANE),
	ROW(FUSE_INTERRUPT, interrupt, BODY(fuse_interrupt_in), 0, ON_LANE),

	ROW(FUSE_LOOKUP, lookup, 0, 1, ON_WORKER),
	ROW(FUSE_FORGET, forget, BODY(fuse_forget_in), 0, ON_LANE),
	ROW(FUSE_BATCH_FORGET, batch_forget, BODY(fuse_batch_forget_in), 0,
            ON_LANE),
	ROW(FUSE_MKNOD, mknod, BODY(fuse_mknod_in), 1, ON_WORKER),
	ROW(FUSE_MKDIR, mkdir, BODY(fuse_mkdir_in), 1, ON_WORKER),
	ROW(FUSE_SYMLINK, symlink, 0, 2, ON_WORKER),
	ROW(FUSE_LINK, link, BODY(fuse_link_in), 1, ON_WORKER),
	ROW(FUSE_UNLINK, unlink, 0, 1, ON_WORKER),
	ROW(FUSE_RMDIR, rmdir, 0, 1, ON_WORKER),
	ROW(FUSE_RENAME, rename, BODY(fuse_rename_in), 2, ON_WORKER),
	ROW(FUSE_RENAME2, rename2, BODY(fuse_rename2_in), 2, ON_WORKER),
	ROW(FUSE_READLINK, readlink, 0, 0, ON_WORKER),

	ROW(FUSE_GETATTR, getattr, BODY(fuse_getattr_in), 0, ON_WORKER),
	ROW(WIRE_STATX, statx, BODY(wire_statx_in), 0, ON_WORKER),
	ROW(FUSE_SETATTR, setattr, BODY(fuse_setattr_in), 0, ON_WORKER),
	ROW(FUSE_ACCESS, access, BODY(fuse_access_in), 0, ON_WORKER),
	ROW(FUSE_STATFS, statfs, 0, 0, ON_WORKER),
	ROW(FUSE_SETXATTR, setxattr, SETXATTR_IN_BYTES, 1, ON_WORKER),
	ROW(FUSE_GETXATTR, getxattr, BODY(fuse_getxattr_in), 1, ON_WORKER),
	ROW(FUSE_LISTXATTR, listxattr, BODY(fuse_getxattr_in), 0, ON_WORKER),
	ROW(FUSE_REMOVEXATTR, removexattr, 0, 1, ON_WORKER),

	ROW(FUSE_OPENDIR, opendir, BODY(fuse_open_in), 0, ON_WORKER),
	ROW(FUSE_READDIR, readdir, BODY(fuse_read_in), 0, ON_WORKER),
	ROW(FUSE_READDIRPLUS, readdirplus, BODY(fuse_read_in), 0, ON_WORKER),
	ROW(FUSE_RELEASEDIR, releasedir, BODY(fuse_release_in), 0, ON_WORKER),
	ROW(FUSE_FSYNCDIR, fsyncdir, BODY(fuse_fsync_in), 0, ON_WORKER),

	ROW(FUSE_OPEN, open, BODY(fuse_open_in), 0, ON_WORKER),
	ROW(FUSE_CREATE, create, BODY(fuse_create_in), 1, ON_WORKER),
	ROW(FUSE_TMPFILE, tmpfile, BODY(fuse_create_in), 1, ON_WORKER),
	ROW(FUSE_RELEASE, release, BODY(fuse_release_in), 0, ON_WORKER),

	ROW(FUSE_READ, read, BODY(fuse_read_in), 0, ON_LANE),
	ROW(FUSE_WRITE, write, BODY(fuse_write_in), 0, ON_WORKER),
	ROW(FUSE_FLUSH, flush, BODY(fuse_flush_in), 0, ON_LANE),
	ROW(FUSE_FSYNC, fsync, BODY(fuse_fsync_in), 0, ON_WORKER),

	ROW(FUSE_FALLOCATE, fallocate, BODY(fuse_fallocate_in), 0, ON_WORKER),
	ROW(FUSE_LSEEK, lseek, BODY(fuse_lseek_in), 0, ON_WORKER),
	ROW(FUSE_COPY_FILE_RANGE, copy_file_range,
            BODY(fuse_copy_file_range_in), 0, ON_WORKER),
	ROW(WIRE_COPY_FILE_RANGE_64, copy_file_range_64,
            BODY(fuse_copy_file_range_in), 0, ON_WORKER),
};

const struct operation *operation_find(uint32_t opcode)
{
	if (opcode >= ARRAY_SIZE(operations) || !operations[opcode].run)
		return NULL;
	return &operations[opcode];
}
