/*
 * ops.h - the table of operations
 *
 * One row per opcode: what the request must contain and where it runs.  Rows
 * are grouped by the file that implements them.
 */
#ifndef FS_OPS_H
#define FS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;

struct operation {
	const char *name;
	void (*run)(struct request *request);
	uint16_t in_size; /* bytes of the structure that must be there */
	uint8_t names;    /* terminated names after it: 0, 1 or 2 */
	bool on_lane;     /* cannot block: runs on the lane itself */
};

/* NULL: an opcode that we do not know. */
const struct operation *operation_find(uint32_t opcode);

/* init.c */
void op_init(struct request *request);
void op_destroy(struct request *request);
void op_interrupt(struct request *request);

/* ops_name.c: names in directories */
void op_lookup(struct request *request);
void op_forget(struct request *request);
void op_batch_forget(struct request *request);
void op_mknod(struct request *request);
void op_mkdir(struct request *request);
void op_symlink(struct request *request);
void op_link(struct request *request);
void op_unlink(struct request *request);
void op_rmdir(struct request *request);
void op_rename(struct request *request);
void op_rename2(struct request *request);
void op_readlink(struct request *request);

/* ops_attr.c: attributes and the filesystem as a whole */
void op_getattr(struct request *request);
void op_statx(struct request *request);
void op_setattr(struct request *request);
void op_access(struct request *request);
void op_statfs(struct request *request);
void op_setxattr(struct request *request);
void op_getxattr(struct request *request);
void op_listxattr(struct request *request);
void op_removexattr(struct request *request);

/* ops_dir.c: open directories */
void op_opendir(struct request *request);
void op_readdir(struct request *request);
void op_readdirplus(struct request *request);
void op_releasedir(struct request *request);
void op_fsyncdir(struct request *request);

/* RELEASEDIR without the request: close what the handle owns, and the handle.
 */
struct fs;
struct handle;
void directory_close(struct fs *fs, struct handle *handle);

/* ops_open.c: open, create, close */
void op_open(struct request *request);
void op_create(struct request *request);
void op_tmpfile(struct request *request);
void op_release(struct request *request);

/* ops_file.c: read, write, make durable */
void op_read(struct request *request);
void op_write(struct request *request);
void op_flush(struct request *request);
void op_fsync(struct request *request);

/* ops_range.c: operations on ranges of open files */
void op_fallocate(struct request *request);
void op_lseek(struct request *request);
void op_copy_file_range(struct request *request);
void op_copy_file_range_64(struct request *request);

#endif
