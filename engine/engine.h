/*
 * engine.h - files in, verified pages out
 *
 * The engine reads files through a cache of its own and knows nothing of FUSE.
 * It starts one lane per CPU; requests are brought to the lanes by somebody
 * else (fs/transport_*.c, or a test).
 *
 *	engine_open(&options, &engine);
 *	lane_post(engine_lane(engine, 0), &task);	task: file_read(...)
 *	engine_close(engine);
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/options.h"
#include "engine/stats.h"

struct engine;
struct lane;

/*
 * Start the engine.  @options belongs to the caller, outlives the engine and
 * has its cache_size resolved and clamped in place.  -ENOMEM, or the error of
 * io_uring_setup(2) or pthread_create(3); the log names cause and remedy.
 */
int engine_open(struct options *options, struct engine **ret_engine);

/* Wait for I/O in flight and for workers, stop the lanes, free everything.
 * Every file is closed by then.  Accepts NULL. */
void engine_close(struct engine *engine);

/*
 * Have @changed called when a file was found changed behind us, after its pages
 * were dropped.  It runs on any thread, lanes included, without a lock, and
 * must not block.  Before the first file is opened.
 */
struct file_key;
typedef void engine_observer(void *context, const struct file_key *key);
void engine_observe(struct engine *engine, engine_observer *changed,
                    void *context);

/* Wait until no I/O is in flight and no worker is busy.  Nobody starts anything
 * new meanwhile. */
void engine_quiesce(struct engine *engine);

struct options *engine_options(struct engine *engine);
unsigned engine_lane_count(const struct engine *engine);
struct lane *engine_lane(struct engine *engine, unsigned index);

/* Make live options that were just changed effective (cache_size shrinks
 * here).  May block. */
void engine_apply_options(struct engine *engine);

/* The numbers of threads that are not lanes. */
struct stats_block *engine_stats(struct engine *engine);

/* Total of a number; gauges that the engine knows are computed. */
uint64_t engine_stat(struct engine *engine, enum stat_id id);

/* One line per I/O in flight, see aheadfs(8).  Any thread. */
void engine_print_inflight(struct engine *engine, FILE *stream);

#endif
