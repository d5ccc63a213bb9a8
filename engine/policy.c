#include "engine/policy.h"

#include <assert.h>
#include <stdatomic.h>

enum {
	/* Share of the small queue, the paper's choice. */
	SMALL_PERCENT = 10,

	/* Uses while in the small queue that earn a place in main: two beat
	 * one on recorded block traces with small caches. */
	PROMOTE_USES = 2,

	/* More uses than this are not told apart. */
	USES_MAX = 3,
};

void policy_init(struct policy *policy, struct policy_entry *entries,
                 size_t capacity, struct policy_ghost *ghosts,
                 size_t ghost_buckets)
{
	assert(capacity < POLICY_NONE);
	assert((ghost_buckets & (ghost_buckets - 1)) == 0);
	const struct policy_queue empty = {POLICY_NONE, POLICY_NONE, 0};

	*policy = (struct policy){
		.entries = entries,
		.capacity = capacity,
		.small = empty,
		.main = empty,
		.ghosts = ghosts,
		.ghost_buckets = ghost_buckets,
	};
}

static struct policy_queue *policy_queue(struct policy *policy,
                                         enum policy_queue_id id)
{
	assert(id != POLICY_OUT);
	return id == POLICY_SMALL ? &policy->small : &policy->main;
}

static void policy_push(struct policy *policy, enum policy_queue_id id,
                        uint32_t page)
{
	struct policy_queue *queue = policy_queue(policy, id);
	struct policy_entry *entry = &policy->entries[page];

	assert(entry->queue == POLICY_OUT);
	entry->queue = (uint8_t)id;
	entry->newer = POLICY_NONE;
	entry->older = queue->newest;
	if (queue->newest == POLICY_NONE)
		queue->oldest = page;
	else
		policy->entries[queue->newest].newer = page;
	queue->newest = page;
	queue->count++;
}

static void policy_unlink(struct policy *policy, uint32_t page)
{
	struct policy_entry *entry = &policy->entries[page];
	struct policy_queue *queue = policy_queue(policy, entry->queue);

	assert(queue->count > 0);
	if (entry->newer == POLICY_NONE)
		queue->newest = entry->older;
	else
		policy->entries[entry->newer].older = entry->older;
	if (entry->older == POLICY_NONE)
		queue->oldest = entry->newer;
	else
		policy->entries[entry->older].newer = entry->newer;
	entry->queue = POLICY_OUT;
	queue->count--;
}

static struct policy_ghost *policy_bucket(const struct policy *policy,
                                          uint32_t fingerprint)
{
	return &policy->ghosts[fingerprint & (policy->ghost_buckets - 1)];
}

/* Ghosts live as long as there were fewer departures than pages that fit. */
static bool ghost_is_alive(const struct policy *policy, uint32_t departure)
{
	size_t lifetime = policy->small.count + policy->main.count;

	return departure != 0 && policy->departures - departure < lifetime;
}

/* Is it a ghost?  Then it is one no longer. */
static bool ghost_take(struct policy *policy, uint32_t fingerprint)
{
	struct policy_ghost *bucket = policy_bucket(policy, fingerprint);

	for (unsigned i = 0; i < 4; i++) {
		if (bucket->fingerprint[i] != fingerprint)
			continue;
		bool is_alive = ghost_is_alive(policy, bucket->departure[i]);

		bucket->departure[i] = 0;
		return is_alive;
	}
	return false;
}

static void ghost_add(struct policy *policy, uint32_t fingerprint)
{
	struct policy_ghost *bucket = policy_bucket(policy, fingerprint);
	unsigned slot = 0;

	if (++policy->departures == 0)
		policy->departures = 1; /* 0 means an empty slot */
	for (unsigned i = 1; i < 4; i++) {
		if (policy->departures - bucket->departure[i] >
		    policy->departures - bucket->departure[slot])
			slot = i;
	}
	bucket->fingerprint[slot] = fingerprint;
	bucket->departure[slot] = policy->departures;
}

void policy_insert(struct policy *policy, uint32_t page, uint64_t key)
{
	assert(page < policy->capacity);
	struct policy_entry *entry = &policy->entries[page];

	/* A multiplicative mix: neighbouring keys must not share a bucket. */
	entry->fingerprint = (uint32_t)((key * 0x9E3779B97F4A7C15ULL) >> 32);
	atomic_store_explicit(&entry->uses, 0, memory_order_relaxed);
	policy_push(policy,
	            ghost_take(policy, entry->fingerprint) ? POLICY_MAIN
	                                                   : POLICY_SMALL,
	            page);
}

void policy_touch(struct policy *policy, uint32_t page)
{
	assert(page < policy->capacity);
	struct policy_entry *entry = &policy->entries[page];
	uint8_t uses = atomic_load_explicit(&entry->uses, memory_order_relaxed);

	if (uses < USES_MAX)
		atomic_store_explicit(&entry->uses, (uint8_t)(uses + 1),
		                      memory_order_relaxed);
}

void policy_remove(struct policy *policy, uint32_t page)
{
	assert(page < policy->capacity);
	if (policy->entries[page].queue != POLICY_OUT)
		policy_unlink(policy, page);
}

static bool policy_small_is_full(const struct policy *policy)
{
	size_t total = policy->small.count + policy->main.count;

	return policy->small.count * 100 >= total * SMALL_PERCENT &&
	       policy->small.count > 0;
}

uint32_t policy_victim(struct policy *policy)
{
	/* Ends: each turn takes a page out, moves one from small to main, or
	 * lowers the uses of one in main. */
	for (;;) {
		bool is_small = policy_small_is_full(policy);
		uint32_t page = is_small ? policy->small.oldest
		                         : policy->main.oldest;

		if (page == POLICY_NONE)
			return POLICY_NONE;
		struct policy_entry *entry = &policy->entries[page];
		uint8_t uses = atomic_load_explicit(&entry->uses,
		                                    memory_order_relaxed);

		policy_unlink(policy, page);
		if (is_small ? uses < PROMOTE_USES : uses == 0)
			return page;
		atomic_store_explicit(&entry->uses,
		                      is_small ? 0 : (uint8_t)(uses - 1),
		                      memory_order_relaxed);
		policy_push(policy, POLICY_MAIN, page);
	}
}

void policy_evicted(struct policy *policy, uint32_t page, bool was_used)
{
	assert(policy->entries[page].queue == POLICY_OUT);
	if (was_used)
		ghost_add(policy, policy->entries[page].fingerprint);
}

void policy_return(struct policy *policy, uint32_t page)
{
	policy_push(policy, POLICY_MAIN, page);
}

static bool policy_check_queue(const struct policy *policy,
                               const struct policy_queue *queue,
                               enum policy_queue_id id)
{
	uint32_t previous = POLICY_NONE;
	size_t count = 0;

	for (uint32_t page = queue->newest; page != POLICY_NONE;
	     page = policy->entries[page].older) {
		const struct policy_entry *entry = &policy->entries[page];

		if (entry->queue != id || entry->newer != previous)
			return false;
		if (++count > policy->capacity)
			return false;
		previous = page;
	}
	return count == queue->count && queue->oldest == previous;
}

bool policy_check(const struct policy *policy)
{
	return policy_check_queue(policy, &policy->small, POLICY_SMALL) &&
	       policy_check_queue(policy, &policy->main, POLICY_MAIN);
}
