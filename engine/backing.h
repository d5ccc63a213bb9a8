/*
 * backing.h - struct file, for the engine's own files
 *
 * file.c opens and closes it, read.c reads it, change.c changes it, fill.c
 * fills its pages.
 *
 * A file is referenced by its users, by each of its pages and by each I/O; it
 * is freed with the last reference.  Its descriptor is open while there are
 * users or I/Os.
 */
#ifndef ENGINE_BACKING_H
#define ENGINE_BACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/file.h"
#include "engine/identity.h"
#include "engine/index.h"
#include "engine/lock.h"
#include "engine/stream.h"

struct cache;

struct file {
	/* Set when the file is made, never changed. */
	struct engine *engine;
	struct file_key key;

	/* Protected by the engine's files_lock. */
	struct file *hash_next;

	/* Atomic: dropping the last reference takes files_lock, see
	 * file_put(). */
	_Atomic(uint32_t) references;

	struct lock lock;

	/* Protected by lock. */
	unsigned users;
	unsigned fd_users; /* users and claimed pages: the descriptor stays */
	int fd;
	bool is_direct;
	bool has_fine_stamps;
	bool has_identity;
	struct identity identity;
	uint64_t checked_ns; /* monotonic: when identity was confirmed */
	uint64_t version;    /* counts identities */
	/* Names this identity's contents; also read without the lock, relaxed,
	 * by who then compares it under the lock. */
	_Atomic(uint64_t) sum_id;
	uint64_t size;
	struct change *changes; /* in progress */
	uint64_t change_count;  /* counts what changes did to this struct */
	struct index index;
	struct stream_set streams;
};

/* One more reference; the caller holds one or knows that there is one. */
void file_get(struct file *file);

/* Drop a reference.  Without the file's lock. */
void file_put(struct file *file);

/* @count claimed pages of the file need its descriptor no more.  A last one is
 * closed by a worker of @lane. */
void file_release_fd(struct file *file, struct lane *lane, unsigned count);

/* The callbacks of the cache. */
enum cache_verdict file_evict(struct page *page);
void file_forget_page(struct page *page);

/* Pages that lost their place in the index; their reference is dropped after
 * the lock. */
struct page_list {
	struct page *pages[64];
	size_t count;
};

/*
 * Take the pages @first to @last out of the index, whether valid or being read,
 * as many as the list holds.  True: call again after page_list_drop() outside
 * the lock.  Counts them as invalidated.
 */
bool file_detach_locked(struct file *file, uint64_t first, uint64_t last,
                        struct page_list *list);
void page_list_drop(struct engine *engine, struct page_list *list);

/* Take one page out of the index; the index's reference is the caller's now. */
void file_unindex_locked(struct file *file, struct page *page);

/* file_detach_locked() of the whole range, taking the lock itself. */
void file_detach(struct file *file, uint64_t first, uint64_t last);

/*
 * Compare a fresh identity with the known one.  If it differs, take it over as
 * another content and return true: the caller then detaches everything, after
 * the lock.  Does nothing while a change of ours is in progress.
 */
bool file_meets_locked(struct file *file, const struct identity *identity);

/* Take over @identity after a change of our own: the content that was not
 * changed is still known. */
void file_follow_locked(struct file *file, const struct identity *identity);

/* file_meets_locked() and what follows from it, unless @identity turns out to
 * be older than a change of our own.  True if it differed. */
bool file_meets(struct file *file, const struct identity *identity);

/* Enter a page, READING or VALID, at its empty place; the index gets a
 * reference of its own.  -ENOMEM. */
int file_index_locked(struct file *file, struct page *page);

/* May sums of this file be learned and believed?  Its stamps must tell every
 * change, and its bytes must come from the disk. */
bool file_has_sums_locked(const struct file *file);

/* A read continues or starts: read.c.  Called by fill.c when the last page is
 * there, and when free pages are. */
void read_continue(struct read *read);
void read_page_done(struct page_waiter *waiter, int error);
void read_feed(struct lane *lane);

/* cache_unpin(), and whoever waits for free pages may try again. */
void engine_unpin(struct engine *engine, struct page *page);

#endif
