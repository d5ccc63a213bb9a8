/*
 * handle.h - open files, open directories, open control files
 *
 * The kernel names an open file by a 64-bit number of ours: slot and
 * generation.  Slots are never given back to the system, so a number that the
 * kernel made up finds a slot of another generation and is refused.
 * handle_find() takes no lock: the kernel uses a handle only between the reply
 * to OPEN and RELEASE.
 */
#ifndef FS_HANDLE_H
#define FS_HANDLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/lock.h"

struct control_snapshot;
struct file;
struct handle_table;
struct inode;

enum handle_kind { HANDLE_FREE, HANDLE_FILE, HANDLE_DIRECTORY, HANDLE_CONTROL };

struct directory_stream {
	/* One READDIR at a time may use it. */
	struct lock lock;
	char *buffer;      /* entries as getdents64(2) gave them */
	size_t size;       /* bytes in the buffer */
	size_t used;       /* bytes already handed out */
	uint64_t position; /* d_off of the last entry handed out */
};

struct handle {
	_Atomic(uint32_t) kind;
	_Atomic(uint32_t) generation;
	uint32_t slot;

	struct inode *inode; /* a reference; NULL for control files */
	struct file *file;   /* HANDLE_FILE: the engine's, a user */

	/* HANDLE_FILE: for writing and fsync, or -1 when opened read-only;
	 * HANDLE_DIRECTORY: the stream. */
	int fd;
	int flags; /* open(2) flags of the program */
	struct directory_stream directory;
	struct control_snapshot *snapshot;
	uint64_t control_node;
	struct handle *next_free;
};

int handle_table_open(struct handle_table **ret_table);
void handle_table_close(struct handle_table *table);

/* A fresh handle with fd -1 and everything else zero, or NULL: no memory. */
struct handle *handle_new(struct handle_table *table, enum handle_kind kind);

/* The number for the reply.  Publishes the handle: fill it before. */
uint64_t handle_id(struct handle *handle);

/* NULL unless @id names a live handle of @kind. */
struct handle *handle_find(struct handle_table *table, uint64_t id,
                           enum handle_kind kind);

/* Give the slot back; what the handle owned is the caller's business. */
void handle_free(struct handle_table *table, struct handle *handle);

/* The first live handle after @handle (NULL: the very first), or NULL: what is
 * still open when a connection ends without RELEASEs. */
struct handle *handle_next(struct handle_table *table,
                           const struct handle *handle);

uint64_t handle_count(struct handle_table *table, enum handle_kind kind);

#endif
