#include "engine/cache.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/index.h"

enum {
	/* Pages taken out of the policy under one hold of the lock. */
	EVICT_BATCH = 32,

	/* Times to make room for one reader before it has to wait. */
	TAKE_ROUNDS_MAX = 100,

	/* A node's number is its page and its place there. */
	NODE_SLOT_BITS = 4,
	NODES_PER_PAGE = 15,

	/* A read of 257 pages needs 6 leaves and the nodes above them; so much
	 * is for 30 such reads at a time, and at most this share of a tiny
	 * cache. */
	NODE_RESERVE_MAX = 16,
	NODE_RESERVE_SHARE = 8,
};

/* A page of nodes: this header, then the nodes. */
struct node_page {
	uint32_t next;     /* of the pages with free slots, plus one */
	uint32_t previous; /* likewise */
	uint32_t free_mask;
	uint32_t unused;
	struct index_node nodes[NODES_PER_PAGE];
};

_Static_assert(sizeof(struct node_page) == PAGE_BYTES, "nodes fill a page");
_Static_assert(sizeof(struct page) + sizeof(struct policy_entry) +
                               sizeof(struct policy_ghost) / 2 +
                               2 * sizeof(uint32_t) <=
                       CACHE_PAGE_COST - PAGE_BYTES,
               "the cost of a page covers all that is kept for it");

static void *cache_map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int cache_open(struct cache *cache, size_t limit_bytes, size_t max_bytes,
               cache_evictor *evict, cache_forgetter *forget,
               struct stats_block *stats)
{
	assert(limit_bytes <= max_bytes);
	size_t page_max = cache_pages_of(max_bytes);
	size_t page_limit = cache_pages_of(limit_bytes);
	size_t buckets = 1;

	/* A quarter of the pages, rounded up: half a bucket a page at most. */
	while (buckets * 4 < page_limit)
		buckets *= 2;
	*cache = (struct cache){
		.evict = evict,
		.forget = forget,
		.stats = stats,
		.page_limit = page_limit,
		.ghost_bytes = buckets * sizeof(struct policy_ghost),
	};
	lock_init(&cache->lock);
	cache->policy_memory =
		cache_map(page_max * sizeof(struct policy_entry));
	cache->ghost_memory = cache_map(cache->ghost_bytes);
	if (arena_open(&cache->arena, page_max) < 0 || !cache->policy_memory ||
	    !cache->ghost_memory) {
		cache_close(cache);
		return -ENOMEM;
	}
	policy_init(&cache->policy, cache->policy_memory, page_max,
	            cache->ghost_memory, buckets);
	return 0;
}

void cache_close(struct cache *cache)
{
	if (cache->policy_memory)
		munmap(cache->policy_memory,
		       cache->arena.page_max * sizeof(struct policy_entry));
	if (cache->ghost_memory)
		munmap(cache->ghost_memory, cache->ghost_bytes);
	arena_close(&cache->arena);
	lock_done(&cache->lock);
}

/* Pages that index nodes may use and file data may not: a page that was taken
 * for data must find its place in an index without evicting. */
static size_t cache_reserve(const struct cache *cache)
{
	size_t share = cache->page_limit / NODE_RESERVE_SHARE;

	return share < NODE_RESERVE_MAX ? share : NODE_RESERVE_MAX;
}

static size_t cache_free_locked(const struct cache *cache, size_t reserve)
{
	assert(lock_is_held(&cache->lock));
	if (cache->page_used + reserve >= cache->page_limit)
		return 0;
	return cache->page_limit - reserve - cache->page_used;
}

static bool cache_take_free_locked(struct cache *cache, struct page **pages,
                                   size_t count, size_t reserve)
{
	if (cache_free_locked(cache, reserve) < count)
		return false;
	for (size_t i = 0; i < count; i++) {
		pages[i] = arena_take(&cache->arena);
		*pages[i] = (struct page){.state = PAGE_READING};
		atomic_init(&pages[i]->references, 1);
	}
	cache->page_used += count;
	return true;
}

/* Pin up to EVICT_BATCH victims.  A page the policy holds has the reference of
 * its index, which cannot go while the lock is held. */
static size_t cache_victims(struct cache *cache, size_t wanted,
                            struct page **ret_victims)
{
	size_t n = 0;

	scoped_lock(&cache->lock);
	while (n < wanted && n < EVICT_BATCH) {
		uint32_t number = policy_victim(&cache->policy);

		if (number == POLICY_NONE)
			break;
		ret_victims[n] = cache_page(cache, number);
		cache_pin(ret_victims[n]);
		n++;
	}
	return n;
}

/* The page is out of its file: remember it, if it was of use. */
static void cache_count_evicted(struct cache *cache, const struct page *page,
                                bool was_used)
{
	stat_add(cache->stats, evictions, 1);
	if (!was_used)
		stat_add(cache->stats, readahead_wasted, 1);
	scoped_lock(&cache->lock);
	policy_evicted(&cache->policy, arena_number(&cache->arena, page),
	               was_used);
}

/* Try @wanted victims, or a few.  Returns how many pages became free;
 * *@ret_tried says how many there were to try. */
static size_t cache_evict(struct cache *cache, size_t wanted, size_t *ret_tried)
{
	struct page *victims[EVICT_BATCH];
	size_t count = cache_victims(cache, wanted, victims);
	size_t freed = 0;

	for (size_t i = 0; i < count; i++) {
		enum cache_verdict verdict = cache->evict(victims[i]);

		if (verdict != CACHE_KEPT)
			cache_count_evicted(cache, victims[i],
			                    verdict == CACHE_EVICTED);
		freed += cache_unpin(cache, victims[i]);
	}
	*ret_tried = count;
	return freed;
}

/* Evict until @wanted more pages are free, or every page was tried in vain. */
static bool cache_make_room(struct cache *cache, size_t wanted)
{
	size_t in_vain = 0;

	while (in_vain <= cache->page_limit) {
		size_t tried;
		size_t freed = cache_evict(cache, wanted, &tried);

		if (tried == 0)
			return false;
		if (freed >= wanted)
			return true;
		wanted -= freed;
		in_vain = freed > 0 ? 0 : in_vain + tried;
	}
	return false;
}

/* The pages that were never used before @fresh was the first of those: the last
 * ones, side by side. */
static void cache_populate(const struct cache *cache, struct page *const *pages,
                           size_t count, size_t fresh)
{
	size_t used = 0;

	while (used < count && arena_number(&cache->arena, pages[used]) < fresh)
		used++;
	if (used < count)
		arena_populate(&cache->arena, pages[used], count - used);
}

/* What is free, or how many pages are *@ret_missing. */
static bool cache_take_now(struct cache *cache, struct page **ret_pages,
                           size_t count, size_t *ret_missing)
{
	lock_acquire(&cache->lock);
	size_t fresh = cache->arena.fresh;
	size_t reserve = cache_reserve(cache);
	bool is_taken =
		cache_take_free_locked(cache, ret_pages, count, reserve);

	if (!is_taken)
		*ret_missing =
			cache->page_used + reserve + count - cache->page_limit;
	lock_release(&cache->lock);
	if (is_taken)
		cache_populate(cache, ret_pages, count, fresh);
	return is_taken;
}

/* Take what is free, or make room and try again. */
static bool cache_try_take(struct cache *cache, struct page **ret_pages,
                           size_t count)
{
	size_t missing;

	/* Bounded: others may take what was freed, again and again. */
	for (unsigned round = 0; round < TAKE_ROUNDS_MAX; round++) {
		if (cache_take_now(cache, ret_pages, count, &missing))
			return true;
		if (!cache_make_room(cache, missing))
			return false;
	}
	return false;
}

bool cache_take(struct cache *cache, struct page **ret_pages, size_t count,
                bool will_wait)
{
	if (cache_try_take(cache, ret_pages, count))
		return true;
	if (!will_wait)
		return false;
	/* Once more with the flag up: what was freed or unpinned before is
	 * found here, who does so afterwards finds the flag. */
	atomic_store(&cache->is_hungry, true);
	return cache_try_take(cache, ret_pages, count);
}

void cache_pin(struct page *page)
{
	uint32_t before = atomic_fetch_add_explicit(&page->references, 1,
	                                            memory_order_relaxed);

	assert(before > 0 && before < UINT32_MAX);
}

bool cache_unpin(struct cache *cache, struct page *page)
{
	/* Release what this holder did with the page, acquire what all others
	 * did before it is reused; and ordered with is_hungry. */
	uint32_t before = atomic_fetch_sub(&page->references, 1);

	assert(before > 0);
	if (before > 1)
		return false;
	assert(!page->is_indexed);
	assert(!page->waiters);
	if (page->file)
		cache->forget(page);
	page->file = NULL;
	page->state = PAGE_FREE;

	scoped_lock(&cache->lock);
	assert(cache->page_used > 0);
	cache->page_used--;
	arena_give(&cache->arena, page);
	/* The limit was lowered while the page was in use. */
	if (cache->page_used + arena_warm_count(&cache->arena) >
	    cache->page_limit)
		arena_release(&cache->arena, 1);
	return true;
}

void cache_publish(struct cache *cache, struct page *const *pages, size_t count,
                   uint64_t file_id)
{
	scoped_lock(&cache->lock);
	for (size_t i = 0; i < count; i++) {
		const struct page *page = pages[i];

		assert(page->is_indexed && page_is_valid(page));
		policy_insert(&cache->policy, arena_number(&cache->arena, page),
		              file_id ^ page->index << 20);
	}
}

void cache_return(struct cache *cache, struct page *page)
{
	assert(page->is_indexed);
	scoped_lock(&cache->lock);
	policy_return(&cache->policy, arena_number(&cache->arena, page));
}

void cache_withdraw(struct cache *cache, struct page *page)
{
	scoped_lock(&cache->lock);
	policy_remove(&cache->policy, arena_number(&cache->arena, page));
}

void cache_trim(struct cache *cache)
{
	size_t used;
	size_t limit;

	do {
		lock_acquire(&cache->lock);
		used = cache->page_used;
		limit = cache->page_limit;
		size_t held = used + arena_warm_count(&cache->arena);

		if (held > limit)
			arena_release(&cache->arena, held - limit);
		lock_release(&cache->lock);
	} while (used > limit && cache_make_room(cache, used - limit));
}

void cache_resize(struct cache *cache, size_t limit_bytes)
{
	size_t page_limit = cache_pages_of(limit_bytes);

	lock_acquire(&cache->lock);
	if (page_limit > cache->arena.page_max)
		page_limit = cache->arena.page_max;
	cache->page_limit = page_limit;
	lock_release(&cache->lock);
	cache_trim(cache);
}

size_t cache_bytes(struct cache *cache)
{
	scoped_lock(&cache->lock);
	return cache->page_used * CACHE_PAGE_COST;
}

size_t cache_data_pages(struct cache *cache)
{
	scoped_lock(&cache->lock);
	return cache->page_used - cache->node_pages;
}

size_t cache_limit_pages(struct cache *cache)
{
	scoped_lock(&cache->lock);
	return cache->page_limit;
}

static struct node_page *node_page(struct cache *cache, uint32_t number)
{
	return arena_memory(&cache->arena, number);
}

struct index_node *cache_node(struct cache *cache, uint32_t number)
{
	struct node_page *page = node_page(cache, number >> NODE_SLOT_BITS);

	return &page->nodes[number & ((1 << NODE_SLOT_BITS) - 1)];
}

static void node_page_link_locked(struct cache *cache, uint32_t number)
{
	struct node_page *page = node_page(cache, number);

	page->previous = 0;
	page->next = cache->node_partial;
	if (page->next)
		node_page(cache, page->next - 1)->previous = number + 1;
	cache->node_partial = number + 1;
}

static void node_page_unlink_locked(struct cache *cache, uint32_t number)
{
	struct node_page *page = node_page(cache, number);

	if (page->next)
		node_page(cache, page->next - 1)->previous = page->previous;
	if (page->previous)
		node_page(cache, page->previous - 1)->next = page->next;
	else
		cache->node_partial = page->next;
}

static bool node_page_add_locked(struct cache *cache)
{
	struct page *page;

	if (!cache_take_free_locked(cache, &page, 1, 0))
		return false;
	uint32_t number = arena_number(&cache->arena, page);

	cache->node_pages++;
	node_page(cache, number)->free_mask = (1u << NODES_PER_PAGE) - 1;
	node_page_link_locked(cache, number);
	return true;
}

struct index_node *cache_node_take(struct cache *cache)
{
	scoped_lock(&cache->lock);
	if (!cache->node_partial && !node_page_add_locked(cache))
		return NULL;
	uint32_t number = cache->node_partial - 1;
	struct node_page *page = node_page(cache, number);
	uint32_t slot = (uint32_t)__builtin_ctz(page->free_mask);

	page->free_mask &= ~(1u << slot);
	if (!page->free_mask)
		node_page_unlink_locked(cache, number);
	struct index_node *node = &page->nodes[slot];

	memset(node, 0, sizeof(*node));
	node->number = number << NODE_SLOT_BITS | slot;
	return node;
}

void cache_node_give(struct cache *cache, struct index_node *node)
{
	scoped_lock(&cache->lock);
	uint32_t number = node->number >> NODE_SLOT_BITS;
	uint32_t slot = node->number & ((1 << NODE_SLOT_BITS) - 1);
	struct node_page *nodes = node_page(cache, number);

	assert(!(nodes->free_mask & 1u << slot));
	if (!nodes->free_mask)
		node_page_link_locked(cache, number);
	nodes->free_mask |= 1u << slot;
	if (nodes->free_mask != (1u << NODES_PER_PAGE) - 1)
		return;

	struct page *page = cache_page(cache, number);

	node_page_unlink_locked(cache, number);
	page->state = PAGE_FREE;
	atomic_store_explicit(&page->references, 0, memory_order_relaxed);
	cache->node_pages--;
	cache->page_used--;
	arena_give(&cache->arena, page);
}

bool cache_check(struct cache *cache)
{
	scoped_lock(&cache->lock);
	size_t used = 0;

	for (size_t i = 0; i < cache->arena.fresh; i++)
		used += cache->arena.pages[i].state != PAGE_FREE;
	return used == cache->page_used &&
	       cache->arena.warm.count + cache->arena.cold.count + used ==
	               cache->arena.fresh &&
	       policy_check(&cache->policy);
}
