#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <syslog.h>
#include <unistd.h>

#include "engine/backing.h"
#include "engine/cleanup.h"
#include "engine/clock.h"
#include "engine/core.h"
#include "engine/log.h"

enum {
	/* Buckets of the table of files: a power of two is not needed, a prime
	 * spreads inode numbers that come in steps. */
	FILE_BUCKETS = 131101,

	/* The share of cache_size that known checksums may take: 1/64 is sums
	 * for about eight times the data that the cache holds. */
	SUMS_SHARE = 64,

	/* All that one file may have ahead (ZFS: 1/16 of the ARC). */
	READAHEAD_SHARE = 16,
};

static const struct io_method *engine_choose_method(struct options *options)
{
	switch ((enum choice_io_method)option_get(options, io_method)) {
	case IO_METHOD_WORKER:
		return &method_worker;
	case IO_METHOD_SYNC:
		return &method_sync;
	case IO_METHOD_AUTO:
	case IO_METHOD_URING:
		break;
	}
	return &method_uring;
}

/* Of cache_size, what the sums may use; the pages have the rest. */
static size_t engine_sums_budget(const struct engine *engine)
{
	if (!option_get(engine->options, checksums))
		return 0;
	return (size_t)option_get(engine->options, cache_size) / SUMS_SHARE;
}

static size_t engine_page_budget(const struct engine *engine)
{
	return (size_t)option_get(engine->options, cache_size) -
	       engine_sums_budget(engine);
}

static void engine_share_cache(struct engine *engine)
{
	atomic_store_explicit(&engine->readahead_share_pages,
	                      cache_limit_pages(&engine->cache) /
	                              READAHEAD_SHARE,
	                      memory_order_relaxed);
}

/* Memory that a cache can have at all: more than the machine has is a mistake
 * that would only show when it swaps. */
static void engine_limit_cache(struct engine *engine)
{
	options_lower(engine->options, OPTION_cache_size,
	              (int64_t)engine->cache_max_bytes,
	              "the memory reserved at mount (that of this machine)");
}

static int engine_open_cache(struct engine *engine, size_t max_bytes)
{
	engine->cache_max_bytes = max_bytes;
	return cache_open(&engine->cache, engine_page_budget(engine), max_bytes,
	                  file_evict, file_forget_page, &engine->stats);
}

static int engine_open_memory(struct engine *engine)
{
	struct sysinfo info;

	/* A live cache_size may grow up to the machine's memory. */
	if (sysinfo(&info) < 0)
		return -errno;
	engine->cache_max_bytes = info.totalram * info.mem_unit;
	engine_limit_cache(engine);

	int err = sums_open(&engine->sums, engine_sums_budget(engine));
	if (err < 0)
		return err;
	err = engine_open_cache(engine, engine->cache_max_bytes);
	/* Address space is limited: then the cache cannot grow. */
	if (err < 0)
		err = engine_open_cache(
			engine,
			(size_t)option_get(engine->options, cache_size));
	if (err < 0)
		sums_close(&engine->sums);
	return err;
}

/* The CPUs that this process may run on, in order. */
static unsigned engine_cpus(int *ret_cpus, unsigned max)
{
	cpu_set_t set;
	unsigned n = 0;

	if (sched_getaffinity(0, sizeof(set), &set) < 0) {
		ret_cpus[0] = -1;
		return 1;
	}
	for (int cpu = 0; cpu < CPU_SETSIZE && n < max; cpu++) {
		if (CPU_ISSET(cpu, &set))
			ret_cpus[n++] = cpu;
	}
	return n;
}

/* Name cause and remedy of the errors that operators meet. */
static void engine_explain(int error)
{
	static const struct {
		int error;
		const char *text;
	} causes[] = {
		{-EPERM, "io_uring is forbidden here: kernel.io_uring_disabled "
	                 "or the container's policy; allow it there"},
		{-ENOSYS, "this kernel has no io_uring; Linux 5.15 or newer "
	                  "is needed"},
		{-ENOMEM, "not enough (locked) memory for the rings; raise "
	                  "RLIMIT_MEMLOCK (ulimit -l) or lower "
	                  "io_max_concurrency"},
		{-EMFILE, "too many open descriptors; raise ulimit -n"},
		{-EAGAIN, "no more threads; raise ulimit -u"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(causes); i++) {
		if (causes[i].error == error) {
			log_message(LOG_ERR, "%s", causes[i].text);
			return;
		}
	}
	log_message(LOG_ERR, "cannot start a lane: %s", strerror(-error));
}

static int engine_open_lanes(struct engine *engine, const int *cpus)
{
	unsigned wanted = engine->lane_count;

	for (unsigned i = 0; i < wanted; i++) {
		int err = lane_open(&engine->lanes[i], engine, i, cpus[i]);

		if (err < 0) {
			engine_explain(err);
			engine->lane_count = i;
			return err;
		}
	}
	return 0;
}

AUTO_DEFINE(engine, struct engine, engine_close)

int engine_open(struct options *options, struct engine **ret_engine)
{
	int cpus[CPU_SETSIZE];
	AUTO(engine) struct engine *engine = calloc(1, sizeof(*engine));

	if (!engine)
		return -ENOMEM;
	engine->options = options;
	lock_init(&engine->files_lock);
	engine->file_bucket_count = FILE_BUCKETS;
	engine->file_buckets = calloc(FILE_BUCKETS, sizeof(struct file *));
	if (!engine->file_buckets)
		return -ENOMEM;
	int err = engine_open_memory(engine);
	if (err < 0) {
		log_message(LOG_ERR,
		            "cannot reserve address space for a cache "
		            "of %lld bytes; lower cache_size or raise "
		            "ulimit -v",
		            (long long)option_get(options, cache_size));
		return err;
	}
	engine->has_memory = true;
	engine_share_cache(engine);
	engine->method = engine_choose_method(options);
	engine->lane_count = engine_cpus(cpus, CPU_SETSIZE);
	/* Zeroed and aligned: a lane's numbers have cache lines of their own.
	 */
	engine->lanes =
		aligned_alloc(64, engine->lane_count * sizeof(*engine->lanes));
	if (!engine->lanes) {
		engine->lane_count = 0;
		return -ENOMEM;
	}
	memset(engine->lanes, 0, engine->lane_count * sizeof(*engine->lanes));
	err = engine_open_lanes(engine, cpus);
	if (err < 0)
		return err;
	*ret_engine = steal_ptr(&engine);
	return 0;
}

/* Every cached page of every file leaves. */
static void engine_drop_files(struct engine *engine)
{
	for (size_t i = 0; i < engine->file_bucket_count; i++) {
		for (;;) {
			lock_acquire(&engine->files_lock);
			struct file *file = engine->file_buckets[i];

			if (file)
				file_get(file);
			lock_release(&engine->files_lock);
			if (!file)
				break;
			assert(file->users == 0);
			file_detach(file, 0, UINT64_MAX);
			file_put(file);
		}
	}
	assert(engine->file_count == 0);
}

/* Closing waits for I/Os on their own lanes. */
static void engine_close_lanes(struct engine *engine)
{
	engine_quiesce(engine);
	if (engine->file_buckets && engine->has_memory)
		engine_drop_files(engine);
	for (unsigned i = 0; i < engine->lane_count; i++)
		lane_close(&engine->lanes[i]);
}

void engine_close(struct engine *engine)
{
	if (!engine)
		return;
	engine_close_lanes(engine);
	if (engine->has_memory) {
		cache_close(&engine->cache);
		sums_close(&engine->sums);
	}
	lock_done(&engine->files_lock);
	free(engine->file_buckets);
	free(engine->lanes);
	free(engine);
}

struct quiet {
	struct task task;
	struct lane *lane;
	bool is_quiet;
	sem_t answered;
};

static void engine_ask_quiet(struct task *task)
{
	struct quiet *quiet = container_of(task, struct quiet, task);

	quiet->is_quiet = quiet->lane->ios.in_flight == 0 &&
	                  quiet->lane->fill.count == 0;
	sem_post(&quiet->answered);
}

static bool lane_is_quiet(struct lane *lane)
{
	struct quiet quiet = {
		.task.run = engine_ask_quiet,
		.lane = lane,
	};

	sem_init(&quiet.answered, 0, 0);
	lane_post(lane, &quiet.task);
	while (sem_wait(&quiet.answered) < 0)
		assert(errno == EINTR);
	sem_destroy(&quiet.answered);
	return quiet.is_quiet;
}

void engine_quiesce(struct engine *engine)
{
	for (unsigned i = 0; i < engine->lane_count; i++) {
		struct lane *lane = &engine->lanes[i];

		/* Polling is enough for something that happens once. */
		while (!lane_is_quiet(lane) || lane_is_working(lane))
			(void)usleep(1000);
	}
}

void engine_observe(struct engine *engine, engine_observer *changed,
                    void *context)
{
	engine->changed = changed;
	engine->changed_context = context;
}

struct options *engine_options(struct engine *engine)
{
	return engine->options;
}

unsigned engine_lane_count(const struct engine *engine)
{
	return engine->lane_count;
}

struct lane *engine_lane(struct engine *engine, unsigned index)
{
	assert(index < engine->lane_count);
	return &engine->lanes[index];
}

void engine_apply_options(struct engine *engine)
{
	engine_limit_cache(engine);
	sums_resize(&engine->sums, engine_sums_budget(engine));
	cache_resize(&engine->cache, engine_page_budget(engine));
	engine_share_cache(engine);
	engine_feed(engine);
}

void engine_feed(struct engine *engine)
{
	for (unsigned i = 0; i < engine->lane_count; i++) {
		struct lane *lane = &engine->lanes[i];

		/* Acquire and release: whoever sees it posted knows that the
		 * lane has not looked yet. */
		if (!atomic_exchange_explicit(&lane->is_feed_posted, true,
		                              memory_order_acq_rel))
			lane_post(lane, &lane->feed_task);
	}
}

void engine_unpin(struct engine *engine, struct page *page)
{
	struct cache *cache = &engine->cache;

	(void)cache_unpin(cache, page);
	if (atomic_load(&cache->is_hungry) &&
	    atomic_exchange(&cache->is_hungry, false))
		engine_feed(engine);
}

struct stats_block *engine_stats(struct engine *engine)
{
	return &engine->stats;
}

static uint64_t engine_in_flight(struct engine *engine)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < engine->lane_count; i++) {
		const struct io_table *table = &engine->lanes[i].ios;

		for (unsigned k = 0; k < table->count; k++)
			count += atomic_load_explicit(&table->ios[k].view.state,
			                              memory_order_relaxed) ==
			         IO_SUBMITTED;
	}
	return count;
}

uint64_t engine_stat(struct engine *engine, enum stat_id id)
{
	uint64_t sum;

	switch (id) {
	case STAT_cache_pages:
		return cache_data_pages(&engine->cache);
	case STAT_cache_bytes:
		return cache_bytes(&engine->cache) + engine_sums_budget(engine);
	case STAT_cache_limit_bytes:
		return (uint64_t)option_get(engine->options, cache_size);
	case STAT_io_inflight:
		return engine_in_flight(engine);
	default:
		break;
	}
	sum = atomic_load_explicit(&engine->stats.values[id],
	                           memory_order_relaxed);
	for (unsigned i = 0; i < engine->lane_count; i++)
		sum += atomic_load_explicit(&engine->lanes[i].stats.values[id],
		                            memory_order_relaxed);
	return sum;
}
