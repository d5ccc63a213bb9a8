/*
 * file.h - one backing file: its identity, its pages, its readers
 *
 * A file of the engine is shared by all who have it open and stays known while
 * pages of it are cached, so that a file opened again finds them.  Byte ranges
 * become pages here:
 *
 *	file_open(engine, &key, opener, context, &file);	may block
 *	read.offset = ...; read.length = ...; read.done = ...;
 *	if (file_read(lane, file, &read) == READ_PARKED)
 *		return;				read.done() comes later
 *	answer(read.result, read_vectors(&read, vectors));
 *	read_release(&read);
 *	file_close(file);
 *
 * Identity.  A file whose size, mtime or ctime is not what it was after our
 * own last change was changed behind the mount: everything cached of it is
 * dropped.  This is asked at open, whenever somebody has a fresh stat
 * (file_check()), and when an I/O completes.
 *
 * Changes.  Whoever writes to the file brackets the system call:
 *
 *	file_change_begin(file, &change, offset, length);
 *	pwrite(...);
 *	file_change_end(file, &change, data, length written);
 *
 * A page in the range that is being read at either end of the bracket is
 * never cached; its readers run beside the change and may see either state.
 * After file_change_end() every new read sees the change.
 */
#ifndef ENGINE_FILE_H
#define ENGINE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "engine/lane.h"
#include "engine/page.h"

struct engine;
struct file;
struct lane;

/* Names a file for as long as it exists; birth tells a recycled inode number
 * from its predecessor. */
struct file_key {
	uint64_t device;
	uint64_t inode;
	uint64_t birth;
};

/* Opens the file with @flags (O_RDONLY, perhaps O_DIRECT): a descriptor that
 * the engine will own, or -errno.  May block. */
typedef int file_opener(void *context, int flags);

/*
 * Find or make the file @key and add a user to it.  The first user opens the
 * descriptor.  An identity that changed since drops what is cached; then
 * *@ret_changed (may be NULL) is true.  May block: never on a lane.
 * -ENOMEM, -EMFILE, or what the opener or statx(2) says.
 */
int file_open(struct engine *engine, const struct file_key *key,
              file_opener *open, void *context, struct file **ret_file,
              bool *ret_changed);

/* The last user closes the descriptor; cached pages stay.  May block. */
void file_close(struct file *file);

enum {
	/* A 1 MiB request that starts inside a page. */
	READ_PAGES_MAX = 257,
	READ_BYTES_MAX = 1 << 20,
};

enum read_state { READ_DONE, READ_PARKED };

struct read {
	/* Set by the caller.  length is at most READ_BYTES_MAX.  done() is
	 * called on the same lane, only if file_read() returned READ_PARKED. */
	uint64_t offset;
	size_t length;
	void (*done)(struct read *read);

	/* Valid when the read is done: bytes (short only at end of file), or
	 * -EIO, -EBADMSG (a damaged page), -ENOMEM, ... */
	ssize_t result;

	/* The engine's.  Everything is touched by the read's lane alone,
	 * except the waiters, which the file's lock protects. */
	struct lane *lane;
	struct file *file;
	struct task task;
	struct read *next_hungry;
	uint64_t version; /* of the file when the pages were gathered ... */
	uint64_t size;    /* ... and its size */
	uint64_t parked_ns;
	_Atomic(uint32_t) missing;
	_Atomic(int) error;
	uint32_t page_count;
	uint32_t hits;
	uint32_t joins;
	uint32_t misses;
	uint8_t restarts;
	bool is_starved; /* there was no memory for it */
	struct page *pages[READ_PAGES_MAX];
	struct page_waiter waiters[READ_PAGES_MAX];
};

/* Start @read on @lane's own thread.  Never blocks, cannot fail: an error is
 * the read's result. */
enum read_state file_read(struct lane *lane, struct file *file,
                          struct read *read);

/* Where the result's bytes lie: at most READ_PAGES_MAX vectors, valid until
 * read_release().  Returns how many. */
size_t read_vectors(const struct read *read, struct iovec *ret_vectors);

/* Give the pages back.  Exactly once for each file_read(). */
void read_release(struct read *read);

/* A change in progress; the fields are the engine's. */
struct change {
	struct change *next;
	uint64_t first;
	uint64_t last;
	bool overlaps;
	bool is_clean;
};

/* @length FILE_TO_END: everything from @offset on (truncate, append). A change
 * of attributes only (chmod, link, ...) has @length 0. May block. */
#define FILE_TO_END UINT64_MAX
void file_change_begin(struct file *file, struct change *change,
                       uint64_t offset, uint64_t length);

/*
 * The change is made.  @data, if not NULL, is what now stands at @offset:
 * @length bytes; whole pages of it may stay in the cache.  May block.
 */
void file_change_end(struct file *file, struct change *change, const void *data,
                     uint64_t offset, size_t length);

/* @stat is fresh: drop everything if the file is not what it was.  True if
 * so.  Never called between begin and end by the changer itself. */
bool file_check(struct file *file, const struct statx *stat);

/* The file of @key if the engine knows it, with a user added; else NULL. */
struct file *file_find(struct engine *engine, const struct file_key *key);

/*
 * Names the contents of the file, apart from what we changed ourselves: another
 * number means that somebody else changed it.  Never 0 for an open file.
 */
uint64_t file_contents(struct file *file);

/* Drop what is cached of the file. */
void file_drop(struct file *file);

/* The engine's own descriptor, O_RDONLY: for fsync and the like of a file that
 * is open.  Valid while the caller is a user. */
int file_descriptor(const struct file *file);

#endif
