/*
 * policy.h - which page leaves when memory is full
 *
 * S3-FIFO (Yang et al., SOSP 2023): new pages enter a small queue; a page used
 * again while there moves to the main queue, the others leave quickly, so that
 * one scan cannot flush what is used often.  The main queue is a FIFO with
 * reinsertion.  A ghost list remembers pages that left the small queue lately:
 * one that comes back goes to main directly.
 *
 * A hit only raises a small counter, without a lock or a list change, and
 * promotion asks for two uses: readers touch neighbouring bytes of a page in a
 * burst, which is one use to them.
 *
 * Pages are numbers below a capacity; the memory is the caller's.  Apart from
 * policy_touch() the caller serialises all calls.
 *
 * Pure functions: no I/O, no locks, no allocation.
 */
#ifndef ENGINE_POLICY_H
#define ENGINE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POLICY_NONE = UINT32_MAX };

enum policy_queue_id { POLICY_OUT, POLICY_SMALL, POLICY_MAIN };

struct policy_entry {
	uint32_t newer;
	uint32_t older;
	uint32_t fingerprint;
	uint8_t queue;
	_Atomic(uint8_t) uses; /* relaxed: a lost count costs nothing */
};

struct policy_queue {
	uint32_t newest;
	uint32_t oldest;
	size_t count;
};

/* A bucket of the ghost table: pages by fingerprint, with the moment each
 * left, counted in departures. */
struct policy_ghost {
	uint32_t fingerprint[4];
	uint32_t departure[4];
};

struct policy {
	struct policy_entry *entries;
	size_t capacity;
	struct policy_queue small;
	struct policy_queue main;
	struct policy_ghost *ghosts;
	size_t ghost_buckets; /* a power of two */
	uint32_t departures;
};

/*
 * @entries: @capacity zeroed elements.  @ghosts: @ghost_buckets zeroed
 * elements, a power of two, about a quarter of the pages that fit.
 */
void policy_init(struct policy *policy, struct policy_entry *entries,
                 size_t capacity, struct policy_ghost *ghosts,
                 size_t ghost_buckets);

/* @page is resident now; @key names its content across evictions. */
void policy_insert(struct policy *policy, uint32_t page, uint64_t key);

/* @page was used.  Any thread, no lock. */
void policy_touch(struct policy *policy, uint32_t page);

/* @page is gone for another reason than eviction.  Does nothing if the policy
 * does not hold it. */
void policy_remove(struct policy *policy, uint32_t page);

/* Choose and take out the page to leave next; POLICY_NONE if there is none. */
uint32_t policy_victim(struct policy *policy);

/* The victim left: remember it, if it was of use (@was_used). */
void policy_evicted(struct policy *policy, uint32_t page, bool was_used);

/* The victim cannot leave (somebody has it pinned): it is in use. */
void policy_return(struct policy *policy, uint32_t page);

/* For tests: queues, links and counts agree. */
bool policy_check(const struct policy *policy);

#endif
