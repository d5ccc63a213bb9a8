/*
 * notify.h - telling the kernel that its copy is old
 *
 * Never from inside a request: the kernel may hold a lock that the notification
 * needs until that very request is answered.  So a notification is a task of
 * its own, beside the workers: the kernel may have to write pages before it
 * drops them, and that takes a worker.
 */
#ifndef FS_NOTIFY_H
#define FS_NOTIFY_H

#include <stdint.h>

struct file_key;

/* An engine_observer, @context is the struct fs: have the kernel drop the pages
 * and attributes that it caches of the file.  Best effort: without memory the
 * attribute timeout has to do. */
void notify_file_changed(void *context, const struct file_key *key);

#endif
