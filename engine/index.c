#include "engine/index.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/cache.h"

static uint32_t index_slot(uint64_t page_index, uint32_t level)
{
	return (uint32_t)(page_index >> (level * INDEX_FANOUT_SHIFT)) &
	       (INDEX_FANOUT - 1);
}

/* Does a tree of this height reach page_index? */
static bool index_reaches(uint32_t height, uint64_t page_index)
{
	unsigned bits = height * INDEX_FANOUT_SHIFT;

	return bits >= 64 || page_index >> bits == 0;
}

uint32_t index_find(const struct index *index, struct cache *cache,
                    uint64_t page_index, struct index_cursor *cursor)
{
	if (!index_reaches(index->height, page_index))
		return UINT32_MAX;
	if (index->height == 0)
		return index->root - 1;

	uint64_t base = page_index >> INDEX_FANOUT_SHIFT;

	if (!cursor->leaf || cursor->base != base) {
		uint32_t entry = index->root;

		for (uint32_t level = index->height - 1; level > 0; level--) {
			struct index_node *node = cache_node(cache, entry - 1);

			entry = node->slots[index_slot(page_index, level)];
			if (entry == INDEX_NONE)
				return UINT32_MAX;
		}
		cursor->leaf = cache_node(cache, entry - 1);
		cursor->base = base;
	}
	/* An empty slot is 0, which becomes UINT32_MAX. */
	return cursor->leaf->slots[index_slot(page_index, 0)] - 1;
}

static int index_grow(struct index *index, struct cache *cache)
{
	if (index->root != INDEX_NONE) {
		struct index_node *node = cache_node_take(cache);

		if (!node)
			return -ENOMEM;
		node->slots[0] = index->root;
		node->used = 1;
		index->root = node->number + 1;
	}
	index->height++;
	return 0;
}

/* Without a page in it a tree has no node and no height. */
static void index_shrink_empty(struct index *index)
{
	if (index->root == INDEX_NONE)
		index->height = 0;
}

/* Take back nodes on the way to page_index that hold nothing. */
static void index_prune(struct index *index, struct cache *cache,
                        uint64_t page_index)
{
	struct index_node *path[64 / INDEX_FANOUT_SHIFT + 1];
	uint32_t entry = index->root;
	uint32_t depth = 0;

	for (uint32_t level = index->height; level-- > 0;) {
		if (entry == INDEX_NONE)
			break;
		path[depth] = cache_node(cache, entry - 1);
		entry = path[depth++]->slots[index_slot(page_index, level)];
	}
	while (depth > 0 && path[depth - 1]->used == 0) {
		struct index_node *node = path[--depth];
		uint32_t level = index->height - depth;

		if (depth == 0) {
			index->root = INDEX_NONE;
		} else {
			path[depth - 1]->slots[index_slot(page_index, level)] =
				INDEX_NONE;
			path[depth - 1]->used--;
		}
		cache_node_give(cache, node);
	}
	index_shrink_empty(index);
}

int index_insert(struct index *index, struct cache *cache, uint64_t page_index,
                 uint32_t number)
{
	while (!index_reaches(index->height, page_index)) {
		if (index_grow(index, cache) < 0)
			return -ENOMEM;
	}
	uint32_t *entry = &index->root;
	struct index_node *parent = NULL;

	for (uint32_t level = index->height; level-- > 0;) {
		if (*entry == INDEX_NONE) {
			struct index_node *node = cache_node_take(cache);

			if (!node) {
				index_prune(index, cache, page_index);
				return -ENOMEM;
			}
			*entry = node->number + 1;
			if (parent)
				parent->used++;
		}
		parent = cache_node(cache, *entry - 1);
		entry = &parent->slots[index_slot(page_index, level)];
	}
	assert(*entry == INDEX_NONE);
	*entry = number + 1;
	if (parent)
		parent->used++;
	index->count++;
	return 0;
}

void index_remove(struct index *index, struct cache *cache, uint64_t page_index)
{
	assert(index_reaches(index->height, page_index));
	assert(index->count > 0);
	index->count--;
	if (index->height == 0) {
		assert(index->root != INDEX_NONE);
		index->root = INDEX_NONE;
		return;
	}
	uint32_t entry = index->root;
	struct index_node *node = NULL;

	for (uint32_t level = index->height; level-- > 0;) {
		assert(entry != INDEX_NONE);
		node = cache_node(cache, entry - 1);
		entry = node->slots[index_slot(page_index, level)];
	}
	assert(entry != INDEX_NONE);
	node->slots[index_slot(page_index, 0)] = INDEX_NONE;
	node->used--;
	if (node->used == 0)
		index_prune(index, cache, page_index);
}

/* First page at or after @from below @entry, a subtree of @height levels whose
 * first place is @base. */
static uint32_t index_scan(struct cache *cache, uint32_t entry, uint32_t height,
                           uint64_t base, uint64_t from, uint64_t *ret_index)
{
	if (height == 0) {
		*ret_index = base;
		return entry - 1;
	}
	const struct index_node *node = cache_node(cache, entry - 1);
	unsigned shift = (height - 1) * INDEX_FANOUT_SHIFT;
	uint64_t start = from > base ? (from - base) >> shift : 0;

	for (uint64_t i = start; i < INDEX_FANOUT; i++) {
		if (node->slots[i] == INDEX_NONE)
			continue;
		uint32_t found = index_scan(cache, node->slots[i], height - 1,
		                            base + (i << shift), from,
		                            ret_index);

		if (found != UINT32_MAX)
			return found;
	}
	return UINT32_MAX;
}

uint32_t index_next(const struct index *index, struct cache *cache,
                    uint64_t from, uint64_t *ret_index)
{
	if (index->root == INDEX_NONE || !index_reaches(index->height, from))
		return UINT32_MAX;
	return index_scan(cache, index->root, index->height, 0, from,
	                  ret_index);
}
