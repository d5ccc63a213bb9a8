/*
 * arena.h - the memory of the cache: pages by number
 *
 * Address space for the largest cache is reserved at once, memory is taken
 * page by page as it is first used, so a live cache_size needs no move.  Pages
 * are numbers here; struct page says what is in one.
 *
 * Free pages are handed out in the order in which they came back: pages of a
 * scan leave in file order, and the next I/O finds neighbours again, which the
 * kernel and the disk take as one segment.
 *
 * Huge pages are not asked for: measured, they cost more than they save (see
 * README.md).
 *
 * The caller serialises all calls (the lock of the cache).
 */
#ifndef ENGINE_ARENA_H
#define ENGINE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "engine/page.h"

/* A FIFO of page numbers. */
struct arena_queue {
	uint32_t *numbers; /* page_max of them */
	size_t head;
	size_t count;
};

struct arena {
	/* Set by arena_open(), never changed. */
	char *memory;
	struct page *pages;
	size_t page_max;

	/* Serialised by the caller. */
	size_t fresh;            /* pages from here on were never used */
	struct arena_queue warm; /* free, memory still there */
	struct arena_queue cold; /* free, memory given back */
};

/* -ENOMEM: the address space is limited (ulimit -v, vm.overcommit_memory). */
int arena_open(struct arena *arena, size_t page_max);
void arena_close(struct arena *arena);

/* A free page.  The caller has made sure that there is one. */
struct page *arena_take(struct arena *arena);
void arena_give(struct arena *arena, struct page *page);

/*
 * Give @count pages from @first on, which were never used, their memory in one
 * call: half the cost of faulting them one by one.  Needs no serialisation.
 * Best effort.
 */
void arena_populate(const struct arena *arena, const struct page *first,
                    size_t count);

/* Pages that hold memory although they are free. */
static inline size_t arena_warm_count(const struct arena *arena)
{
	return arena->warm.count;
}

/* Return the memory of up to @count free pages to the system. */
void arena_release(struct arena *arena, size_t count);

static inline uint32_t arena_number(const struct arena *arena,
                                    const struct page *page)
{
	return (uint32_t)(page - arena->pages);
}

static inline void *arena_memory(const struct arena *arena, uint32_t number)
{
	return arena->memory + ((size_t)number << PAGE_SHIFT);
}

#endif
