/*
 * page.h - one cached page and its state machine
 *
 *	FREE --claim--> READING --publish--> VALID
 *	                   \-----fail------> FAILED
 *
 * A page is filled by one I/O and never changes once it is VALID: a write puts
 * a new page in its place, and whoever has the old one pinned keeps reading
 * the old bytes.  Nobody sees a page before it is verified.
 *
 * References keep a page: one for its place in the index of its file, one for
 * the I/O that fills it, one for each reader that pinned it.  A page without a
 * reference is free.  A page that lost its place (evicted, overwritten, failed)
 * lives until its last reader is done with it.
 */
#ifndef ENGINE_PAGE_H
#define ENGINE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	PAGE_SHIFT = 12,
	PAGE_BYTES = 1 << PAGE_SHIFT,
};

struct file;
struct page;
struct read;

/* A read that waits for a page; embedded in the read, so parking allocates
 * nothing. */
struct page_waiter {
	struct page_waiter *next;
	struct read *read;
};

enum page_state {
	PAGE_FREE,
	PAGE_READING,
	PAGE_VALID,
	PAGE_FAILED,
};

struct page {
	/* Set when the page is claimed, constant until it is free again. */
	struct file *file;
	uint64_t index;

	/* Protected by the lock of the file. */
	struct page_waiter *waiters;
	int error;
	uint8_t state;
	bool is_indexed;   /* has its place in the file's index */
	bool is_readahead; /* read ahead and not asked for yet */

	/* Touched only by the lane that fills the page, while READING. */
	uint8_t attempts;
	bool is_solo;    /* after an error: alone in its I/O */
	bool is_suspect; /* did not match its sum at first */

	/* Somebody waits: its I/O is demand.  Set under the lock of the file;
	 * relaxed reads without it only order I/Os. */
	_Atomic(bool) is_wanted;

	/* Atomic: pinning and unpinning take no lock.  The increment happens
	 * under the file's lock, which orders it; the decrement is release,
	 * and the one that reaches zero acquires before the page is reused. */
	_Atomic(uint32_t) references;
};

static inline uint64_t page_of(uint64_t offset)
{
	return offset >> PAGE_SHIFT;
}

static inline bool page_is_valid(const struct page *page)
{
	return page->state == PAGE_VALID;
}

#endif
