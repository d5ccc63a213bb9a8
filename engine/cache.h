/*
 * cache.h - which pages are in memory, and how many may be
 *
 * The cache owns the pages: it hands out free ones, takes them back with the
 * last reference, and makes room by evicting.  Where a page belongs is known
 * by its file's index; the cache calls back to have one taken out of it.
 *
 * A page costs its 4096 bytes and its share of descriptors, policy and ghosts;
 * index nodes live in pages.  All that is counted against the limit before it
 * is used, so cache_bytes never exceeds it.
 *
 * Lock order: the lock of a file is taken before the lock of the cache.
 * cache_take() takes both itself and is called with neither.
 */
#ifndef ENGINE_CACHE_H
#define ENGINE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/arena.h"
#include "engine/lock.h"
#include "engine/policy.h"
#include "engine/stats.h"

struct index_node;

enum {
	/* Descriptor, policy entry, ghosts and queue slots of a page, rounded
	 * up: see cache_open(). */
	CACHE_PAGE_COST = PAGE_BYTES + 128,
};

enum cache_verdict {
	CACHE_KEPT,    /* somebody has it pinned, or it was out already */
	CACHE_EVICTED, /* out, and a reader had used it */
	CACHE_EVICTED_UNREAD, /* out, read ahead in vain */
};

/* Take the page, which the cache has pinned, out of its file's index.  One that
 * stays in the index is given back with cache_return(). */
typedef enum cache_verdict cache_evictor(struct page *page);

/* The last reference is gone: let go of the file. */
typedef void cache_forgetter(struct page *page);

struct cache {
	/* Set by cache_open(), never changed. */
	cache_evictor *evict;
	cache_forgetter *forget;
	struct stats_block *stats;
	void *policy_memory;
	void *ghost_memory;
	size_t ghost_bytes;

	/* Protected by lock. */
	struct lock lock;
	struct arena arena;
	struct policy policy;
	size_t page_limit;
	size_t page_used; /* pages that are not free, nodes included */
	size_t node_pages;
	uint32_t node_partial; /* first page with free node slots, plus one */

	/* Atomic, sequentially consistent with the references of pages: readers
	 * wait for pages.  Set before the last look for one, and read after
	 * each unpin, so that either sees the other. */
	_Atomic(bool) is_hungry;
};

/* Most pages that ever fit into @bytes. */
static inline size_t cache_pages_of(size_t bytes)
{
	return bytes / CACHE_PAGE_COST;
}

/* @max_bytes bounds every later cache_resize().  -ENOMEM. */
int cache_open(struct cache *cache, size_t limit_bytes, size_t max_bytes,
               cache_evictor *evict, cache_forgetter *forget,
               struct stats_block *stats);
void cache_close(struct cache *cache);

/*
 * @count free pages with one reference each, evicting if need be: all of them
 * or none.  False: too many pages are in use; cache->is_hungry is set then if
 * @will_wait.
 */
bool cache_take(struct cache *cache, struct page **ret_pages, size_t count,
                bool will_wait);

/* One more reference; the caller holds one or the lock of the file. */
void cache_pin(struct page *page);

/* Drop a reference.  The last one frees the page.  Never under a file's lock
 * unless the caller holds another reference.  True if the page became free. */
bool cache_unpin(struct cache *cache, struct page *page);

/* The pages are valid and indexed now: they may be evicted.  Under the lock of
 * their file; @file_id names it across evictions. */
void cache_publish(struct cache *cache, struct page *const *pages, size_t count,
                   uint64_t file_id);

/* The victim of an eviction stays.  Under the lock of its file. */
void cache_return(struct cache *cache, struct page *page);

/* The page is no longer indexed.  Under the lock of its file. */
void cache_withdraw(struct cache *cache, struct page *page);

/* The page was used. */
static inline void cache_touch(struct cache *cache, const struct page *page)
{
	policy_touch(&cache->policy, arena_number(&cache->arena, page));
}

static inline void *cache_memory(const struct cache *cache,
                                 const struct page *page)
{
	return arena_memory(&cache->arena, arena_number(&cache->arena, page));
}

static inline struct page *cache_page(const struct cache *cache,
                                      uint32_t number)
{
	return &cache->arena.pages[number];
}

/* Change the limit, at least a few pages; shrinking evicts and returns memory
 * to the system.  Pages in use leave later, see cache_trim(). */
void cache_resize(struct cache *cache, size_t limit_bytes);

/* Evict and release until the limit holds or nothing more can leave. */
void cache_trim(struct cache *cache);

size_t cache_bytes(struct cache *cache);
size_t cache_data_pages(struct cache *cache);
size_t cache_limit_pages(struct cache *cache);

/* Nodes of indexes, see index.h.  cache_node_take() evicts nothing: NULL when
 * no page is free.  Zeroed but for its number. */
struct index_node *cache_node_take(struct cache *cache);
void cache_node_give(struct cache *cache, struct index_node *node);
struct index_node *cache_node(struct cache *cache, uint32_t number);

/* For tests: counts, queues and policy agree. */
bool cache_check(struct cache *cache);

#endif
