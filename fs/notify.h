/*
 * notify.h - telling the kernel that its copy is old
 *
 * Never from inside a request: the kernel may hold a lock that the notification
 * needs until that very request is answered.  So a notification is a task of
 * its own, run by a worker.
 */
#ifndef FS_NOTIFY_H
#define FS_NOTIFY_H

#include <stdint.h>

struct fs;
struct lane;

/* Have the kernel drop the pages (and attributes) that it caches of a node.
 * Best effort: without memory the attribute timeout has to do. */
void notify_inode_changed(struct fs *fs, struct lane *lane, uint64_t node_id);

#endif
