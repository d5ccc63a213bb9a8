/*
 * index.h - which pages of a file are in memory, by page number of the file
 *
 * A radix tree of 64-way nodes, so that a run of pages costs one descent.  A
 * file of a single page at 0 needs no node.  Slots are 32-bit numbers: a node
 * is 272 bytes, and 15 of them share a page of the arena, so the index lives
 * inside the memory limit.  The lock of the file protects a tree.
 */
#ifndef ENGINE_INDEX_H
#define ENGINE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache;

enum {
	INDEX_NONE = 0, /* an empty slot; numbers are stored plus one */
	INDEX_FANOUT_SHIFT = 6,
	INDEX_FANOUT = 1 << INDEX_FANOUT_SHIFT,
};

struct index_node {
	uint32_t used;   /* slots that are not empty */
	uint32_t number; /* of the node itself */
	uint32_t unused[2];
	uint32_t slots[INDEX_FANOUT];
};

struct index {
	uint32_t root;   /* a page at height 0, else a node; plus one */
	uint32_t height; /* levels of nodes */
	size_t count;    /* pages in the tree */
};

/* Remembers the leaf of the last look-up: neighbours cost nothing more.  Valid
 * while the lock is held and nothing is removed. */
struct index_cursor {
	uint64_t base;
	const struct index_node *leaf;
};

/* The arena number of page @page_index, or UINT32_MAX.  @cursor starts zeroed.
 */
uint32_t index_find(const struct index *index, struct cache *cache,
                    uint64_t page_index, struct index_cursor *cursor);

/* Enter @number at the empty place @page_index.  -ENOMEM: no memory for nodes
 * without evicting something, which needs other locks; the tree is unchanged.
 */
int index_insert(struct index *index, struct cache *cache, uint64_t page_index,
                 uint32_t number);

/* Empty the place @page_index, which is not empty. */
void index_remove(struct index *index, struct cache *cache,
                  uint64_t page_index);

/* The first page at or after @from: its arena number, with its place in
 * *@ret_index; UINT32_MAX if there is none. */
uint32_t index_next(const struct index *index, struct cache *cache,
                    uint64_t from, uint64_t *ret_index);

#endif
