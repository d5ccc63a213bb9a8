/*
 * control_node.h - the nodes of the control directory, within control*.c
 *
 * control.c has the table of virtual files, control_names.c serves names and
 * attributes, control_serve.c everything about open files, and dispatches.
 */
#ifndef FS_CONTROL_NODE_H
#define FS_CONTROL_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "fs/wire.h"

struct fs;
struct request;

/* The directory itself; its files follow in the order of the table. */
#define CONTROL_NODE_ROOT (UINT64_MAX - 255)

enum {
	/* Nothing here changes, but a mount may come back without it. */
	CONTROL_VALID_SECONDS = 1,
};

struct control_file {
	const char *name;
	mode_t mode;
	void (*print)(struct fs *fs, FILE *stream);
	int (*write)(struct fs *fs, char *line); /* NULL: read-only */
};

size_t control_file_count(void);
const struct control_file *control_file(size_t index);
uint64_t control_file_node(size_t index);

/* NULL: the directory, or a node that the kernel made up. */
const struct control_file *control_node_file(uint64_t node_id);

/* Does @request come from someone who may access (R_OK, W_OK, X_OK) its node?
 * Without default_permissions nobody else asks. */
bool control_may(const struct request *request, int access);

void control_attributes(const struct fs *fs, uint64_t node_id,
                        struct fuse_attr *ret_attributes);
void control_entry(const struct fs *fs, uint64_t node_id,
                   struct fuse_entry_out *ret_entry);

/* control_names.c */
void control_lookup(struct request *request);
void control_getattr(struct request *request);
void control_statx(struct request *request);
void control_setattr(struct request *request);
void control_access(struct request *request);
void control_statfs(struct request *request);
void control_getxattr(struct request *request);
void control_listxattr(struct request *request);
void control_opendir(struct request *request);
void control_readdir(struct request *request);
void control_readdirplus(struct request *request);

#endif
