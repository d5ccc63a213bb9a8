/*
 * stats.h - every number, counted without sharing
 *
 * Each lane counts in a block of its own; threads that are not lanes share one
 * more block.  A reader sums the blocks, so a total is never behind by more
 * than what is happening at that instant.  Counters are never reset.
 */
#ifndef ENGINE_STATS_H
#define ENGINE_STATS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum stat_id {
#define STAT(name, kind, unit, help) STAT_##name,
#include "engine/stats.def"
#undef STAT
	STAT_COUNT
};

enum stat_kind { STAT_COUNTER, STAT_GAUGE };

struct stats_block {
	/* Relaxed: numbers order nothing. */
	_Alignas(64) _Atomic(uint64_t) values[STAT_COUNT];
};

/* Any thread may add to any block; a lane adds to its own for speed. */
static inline void stats_add(struct stats_block *block, enum stat_id id,
                             uint64_t amount)
{
	atomic_fetch_add_explicit(&block->values[id], amount,
	                          memory_order_relaxed);
}

#define stat_add(block, name, amount) stats_add(block, STAT_##name, amount)

const char *stat_name(enum stat_id id);
const char *stat_unit(enum stat_id id);
const char *stat_help(enum stat_id id);
enum stat_kind stat_kind(enum stat_id id);

#endif
