/*
 * descriptor.h - a descriptor for every inode, a bounded number of them open
 *
 * Programs walk trees with more files than a process may have descriptors.  A
 * descriptor that has a file handle (open_by_handle_at(2)) is closed when too
 * many are open and opened again when it is needed, the least recently used
 * first; one without stays open until it is retired.
 *
 *	descriptor_init(&descriptor, descriptor_encode(cache, fd));
 *	descriptor_give(cache, &descriptor, fd);
 *	descriptor_put(cache, &descriptor);
 *	...
 *	fd = descriptor_get(cache, &descriptor);
 *	...
 *	descriptor_put(cache, &descriptor);
 */
#ifndef FS_DESCRIPTOR_H
#define FS_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/lock.h"

struct file_handle;

struct descriptor {
	/* Constant.  NULL: cannot be opened again, so it stays open. */
	struct file_handle *handle;

	/* Protected by the lock of the cache. */
	int fd; /* O_PATH, or -1 while closed */
	unsigned users;
	unsigned keeps; /* reasons never to close it by itself */
	struct descriptor *older, *newer; /* among the idle; else NULL */
};

struct descriptor_cache;

/* @root_fd is the root of the filesystem that the handles will be of.  Finds
 * out whether handles work.  -ENOMEM. */
int descriptor_cache_open(int root_fd, struct descriptor_cache **ret_cache);

/* Every descriptor is retired.  Accepts NULL. */
void descriptor_cache_close(struct descriptor_cache *cache);

/* The handle of @fd, or NULL: it has none, or nobody could open it. */
struct file_handle *descriptor_encode(const struct descriptor_cache *cache,
                                      int fd);

/* A number that differs between two files that had the same inode number, for
 * filesystems without a birth time; 0 if there is none. */
uint64_t descriptor_generation(int fd);

/* Start closed, with a handle, or with a descriptor that comes by
 * descriptor_give().  Takes @handle over. */
void descriptor_init(struct descriptor *descriptor, struct file_handle *handle);

/* Pin the open descriptor: >= 0, or -ESTALE: the file is gone; -ENFILE, ... */
int descriptor_get(struct descriptor_cache *cache,
                   struct descriptor *descriptor);

/* As descriptor_get(), with @fd if it is closed.  Takes @fd over. */
int descriptor_give(struct descriptor_cache *cache,
                    struct descriptor *descriptor, int fd);

/* Undo one get or give. */
void descriptor_put(struct descriptor_cache *cache,
                    struct descriptor *descriptor);

/* Do not close it by itself until descriptor_unkeep().  The caller has it
 * pinned, in both. */
void descriptor_keep(struct descriptor_cache *cache,
                     struct descriptor *descriptor);
void descriptor_unkeep(struct descriptor_cache *cache,
                       struct descriptor *descriptor);

/* The end: what is still open (or -1) becomes the caller's. */
int descriptor_retire(struct descriptor_cache *cache,
                      struct descriptor *descriptor);

/* Close one that is idle, because open(2) ran out of descriptors.  False if
 * none was. */
bool descriptor_shed(struct descriptor_cache *cache);

/* The name of @fd in /proc/self/fd. */
enum { DESCRIPTOR_NAME_BYTES = 12 };
void descriptor_name(int fd, char *ret_name);

#endif
