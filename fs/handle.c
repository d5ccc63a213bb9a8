#include "fs/handle.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
	CHUNK_HANDLES = 256,

	/* 16 million handles: more than descriptors, because files that are
	 * open for reading share the engine's. */
	CHUNKS_MAX = 65536,
};

struct handle_table {
	/* Each is set once, with release, under lock; handle_find() acquires
	 * it without. */
	_Atomic(struct handle *) chunks[CHUNKS_MAX];

	/* Protected by lock. */
	struct lock lock;
	struct handle *free;
	uint32_t chunk_count;
	uint64_t counts[HANDLE_CONTROL + 1];
};

int handle_table_open(struct handle_table **ret_table)
{
	struct handle_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	lock_init(&table->lock);
	*ret_table = table;
	return 0;
}

void handle_table_close(struct handle_table *table)
{
	if (!table)
		return;
	for (uint32_t i = 0; i < table->chunk_count; i++)
		free(table->chunks[i]);
	lock_done(&table->lock);
	free(table);
}

static struct handle *table_slot(struct handle_table *table, uint32_t slot)
{
	uint32_t index = slot / CHUNK_HANDLES;
	struct handle *chunk;

	if (index >= CHUNKS_MAX)
		return NULL;
	chunk = atomic_load_explicit(&table->chunks[index],
	                             memory_order_acquire);
	return chunk ? &chunk[slot % CHUNK_HANDLES] : NULL;
}

static void table_grow_locked(struct handle_table *table)
{
	struct handle *chunk;

	assert(lock_is_held(&table->lock));
	if (table->chunk_count == CHUNKS_MAX)
		return;
	chunk = calloc(CHUNK_HANDLES, sizeof(*chunk));
	if (!chunk)
		return;
	for (uint32_t i = CHUNK_HANDLES; i-- > 0;) {
		chunk[i].slot = table->chunk_count * CHUNK_HANDLES + i;
		/* Not 0: then no handle is ever called 0. */
		chunk[i].generation = 1;
		chunk[i].next_free = table->free;
		table->free = &chunk[i];
	}
	atomic_store_explicit(&table->chunks[table->chunk_count], chunk,
	                      memory_order_release);
	table->chunk_count++;
}

static struct handle *table_take(struct handle_table *table,
                                 enum handle_kind kind)
{
	scoped_lock(&table->lock);
	if (!table->free)
		table_grow_locked(table);

	struct handle *handle = table->free;

	if (!handle)
		return NULL;
	table->free = handle->next_free;
	table->counts[kind]++;
	return handle;
}

struct handle *handle_new(struct handle_table *table, enum handle_kind kind)
{
	struct handle *handle;

	assert(kind != HANDLE_FREE);
	handle = table_take(table, kind);
	if (!handle)
		return NULL;
	assert(handle->kind == HANDLE_FREE);
	handle->inode = NULL;
	handle->file = NULL;
	handle->fd = -1;
	handle->flags = 0;
	handle->directory = (struct directory_stream){.buffer = NULL};
	handle->snapshot = NULL;
	handle->control_node = 0;
	handle->next_free = NULL;
	atomic_store_explicit(&handle->kind, kind, memory_order_relaxed);
	return handle;
}

uint64_t handle_id(struct handle *handle)
{
	uint32_t generation =
		atomic_load_explicit(&handle->generation, memory_order_relaxed);

	/* Released here and acquired by handle_find(): the reply and the next
	 * request order this as well, but only the kernel sees that. */
	atomic_store_explicit(&handle->generation, generation,
	                      memory_order_release);
	return (uint64_t)generation << 32 | handle->slot;
}

struct handle *handle_find(struct handle_table *table, uint64_t id,
                           enum handle_kind kind)
{
	struct handle *handle = table_slot(table, (uint32_t)id);

	if (!handle)
		return NULL;
	if (atomic_load_explicit(&handle->generation, memory_order_acquire) !=
	    id >> 32)
		return NULL;
	if (atomic_load_explicit(&handle->kind, memory_order_relaxed) != kind)
		return NULL;
	return handle;
}

void handle_free(struct handle_table *table, struct handle *handle)
{
	enum handle_kind kind = atomic_exchange_explicit(
		&handle->kind, HANDLE_FREE, memory_order_relaxed);

	assert(kind != HANDLE_FREE);
	atomic_fetch_add_explicit(&handle->generation, 1, memory_order_relaxed);

	scoped_lock(&table->lock);
	assert(table->counts[kind] > 0);
	table->counts[kind]--;
	handle->next_free = table->free;
	table->free = handle;
}

struct handle *handle_next(struct handle_table *table,
                           const struct handle *handle)
{
	uint32_t slot = handle ? handle->slot + 1 : 0;
	struct handle *next;

	while ((next = table_slot(table, slot))) {
		if (atomic_load_explicit(&next->kind, memory_order_relaxed) !=
		    HANDLE_FREE)
			return next;
		slot++;
	}
	return NULL;
}

uint64_t handle_count(struct handle_table *table, enum handle_kind kind)
{
	scoped_lock(&table->lock);
	return table->counts[kind];
}
