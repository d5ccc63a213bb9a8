#include "engine/lane.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <syslog.h>
#include <unistd.h>

#include "engine/backing.h"
#include "engine/cleanup.h"
#include "engine/core.h"
#include "engine/log.h"

enum {
	/* Threads for calls that may block, per lane: as many calls may hang
	 * in a SOURCE that hangs before the others have to wait. */
	LANE_WORKERS_MAX = 256,

	/* Entries besides the I/Os: armed reads and the wake-up. */
	LANE_ENTRIES_EXTRA = 16,
};

/* The lane whose thread this is, if it is one's. */
static __thread const struct lane *lane_current;

struct engine *lane_engine(const struct lane *lane)
{
	return lane->engine;
}

unsigned lane_index(const struct lane *lane)
{
	return lane->index;
}

struct stats_block *lane_stats(struct lane *lane)
{
	return &lane->stats;
}

bool lane_is_current(const struct lane *lane)
{
	return lane_current == lane;
}

void lane_work(struct lane *lane, enum lane_pool pool, struct task *task)
{
	assert(pool < LANE_POOL_COUNT);
	stat_add(&lane->stats, worker_jobs, 1);
	worker_pool_run(&lane->pools[pool], task);
}

static void lane_wake(struct lane *lane)
{
	uint64_t one = 1;
	ssize_t n = write(lane->wake_fd, &one, sizeof(one));

	/* It can only fail when the counter is full, and then it wakes. */
	assert(n == sizeof(one) || errno == EAGAIN);
}

void lane_post(struct lane *lane, struct task *task)
{
	if (lane_is_current(lane)) {
		task->next = NULL;
		*lane->local_tail = task;
		lane->local_tail = &task->next;
		return;
	}
	struct task *head =
		atomic_load_explicit(&lane->posted, memory_order_relaxed);

	stat_add(&lane->stats, lane_messages, 1);
	do {
		task->next = head;
	} while (!atomic_compare_exchange_weak_explicit(
		&lane->posted, &head, task, memory_order_release,
		memory_order_relaxed));
	/* Whoever finds the list empty wakes; the lane takes all at once. */
	if (!head)
		lane_wake(lane);
}

struct io_uring_sqe *lane_entry(struct lane *lane)
{
	assert(lane_is_current(lane));
	struct io_uring_sqe *entry;

	/* The queue holds more entries than can be in flight, so flushing
	 * always makes room unless the kernel is short of memory. */
	while (!(entry = io_uring_get_sqe(&lane->ring))) {
		int n = io_uring_submit(&lane->ring);

		stat_add(&lane->stats, io_submits, 1);
		if (n < 0)
			(void)usleep(1000); /* -EAGAIN, -EBUSY: no memory */
	}
	return entry;
}

void lane_read(struct lane *lane, int fd, void *buffer, size_t length,
               struct lane_event *event)
{
	struct io_uring_sqe *entry = lane_entry(lane);

	io_uring_prep_read(entry, fd, buffer, (unsigned)length, (uint64_t)-1);
	io_uring_sqe_set_data(entry, event);
}

static void lane_ignore(struct lane_event *event, int result)
{
}

void lane_cancel(struct lane *lane, struct lane_event *event)
{
	struct io_uring_sqe *entry = lane_entry(lane);

	io_uring_prep_cancel(entry, event, 0);
	io_uring_sqe_set_data(entry, &lane->ignored_event);
}

static void lane_arm_wake(struct lane *lane)
{
	lane_read(lane, lane->wake_fd, &lane->wake_count,
	          sizeof(lane->wake_count), &lane->wake_event);
}

static void lane_woken(struct lane_event *event, int result)
{
	struct lane *lane = container_of(event, struct lane, wake_event);

	(void)result; /* being awake is all it is for */
	lane_arm_wake(lane);
}

/* Posted tasks, in the order in which they were posted. */
static void lane_collect(struct lane *lane)
{
	struct task *task = atomic_exchange_explicit(&lane->posted, NULL,
	                                             memory_order_acquire);
	struct task *in_order = NULL;

	while (task) {
		struct task *next = task->next;

		task->next = in_order;
		in_order = task;
		task = next;
	}
	if (!in_order)
		return;
	*lane->local_tail = in_order;
	while (*lane->local_tail)
		lane->local_tail = &(*lane->local_tail)->next;
}

static void lane_run_tasks(struct lane *lane)
{
	lane_collect(lane);
	struct task *task = lane->local_head;

	/* What these tasks post runs next round: completions come between. */
	lane->local_head = NULL;
	lane->local_tail = &lane->local_head;
	while (task) {
		struct task *next = task->next;

		task->run(task);
		task = next;
	}
}

/* Everything of this round goes to the kernel in one call. */
static void lane_enter(struct lane *lane)
{
	bool is_idle = !lane->local_head;
	bool has_entries = io_uring_sq_ready(&lane->ring) > 0;
	int n = is_idle ? io_uring_submit_and_wait(&lane->ring, 1)
	                : io_uring_submit_and_get_events(&lane->ring);

	if (has_entries)
		stat_add(&lane->stats, io_submits, 1);
	/* -EINTR, -EAGAIN, -EBUSY: what was not taken goes along next round. */
	if (n < 0 && n != -EINTR && n != -EAGAIN && n != -EBUSY && n != -ETIME)
		log_message(LOG_ERR, "io_uring_enter: %s", strerror(-n));
}

static void lane_reap(struct lane *lane)
{
	struct io_uring_cqe *completion;

	while (io_uring_peek_cqe(&lane->ring, &completion) == 0) {
		struct lane_event *event = io_uring_cqe_get_data(completion);
		int result = completion->res;

		/* Copied before the entry is given back to the kernel. */
		io_uring_cqe_seen(&lane->ring, completion);
		stat_add(&lane->stats, io_gets, 1);
		event->done(event, result);
	}
}

static int lane_open_ring(struct lane *lane)
{
	unsigned entries = lane->ios.count + LANE_ENTRIES_EXTRA;
	struct io_uring_params parameters = {
		.flags = IORING_SETUP_SINGLE_ISSUER |
	                 IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL,
	};
	int err = io_uring_queue_init_params(entries, &lane->ring, &parameters);

	if (err != -EINVAL)
		return err;
	/* Kernels before 6.1 lack the flags. */
	return io_uring_queue_init(entries, &lane->ring, 0);
}

static void *lane_main(void *argument)
{
	struct lane *lane = argument;

	worker_bind(lane->cpu);
	lane_current = lane;
	lane->open_error = lane_open_ring(lane);
	if (lane->open_error < 0) {
		sem_post(&lane->opened);
		return NULL;
	}
	lane_arm_wake(lane);
	sem_post(&lane->opened);
	for (;;) {
		lane_run_tasks(lane);
		if (lane->is_stopping)
			break;
		fill_flush(lane);
		lane_enter(lane);
		lane_reap(lane);
	}
	io_uring_queue_exit(&lane->ring);
	return NULL;
}

static void lane_feed(struct task *task)
{
	struct lane *lane = container_of(task, struct lane, feed_task);

	atomic_store_explicit(&lane->is_feed_posted, false,
	                      memory_order_release);
	read_feed(lane);
}

/* All pools or none. */
static int lane_open_pools(struct lane *lane)
{
	const struct options *options = lane->engine->options;
	const unsigned thread_max[LANE_POOL_COUNT] = {
		[LANE_BLOCKING] = LANE_WORKERS_MAX,
		[LANE_QUICK] = 1,
		[LANE_ASIDE] = 1,
		[LANE_READING] = (unsigned)option_get(options, io_workers),
	};

	for (unsigned i = 0; i < LANE_POOL_COUNT; i++) {
		int err = worker_pool_open(&lane->pools[i], lane->cpu,
		                           thread_max[i]);
		if (err == 0)
			continue;
		while (i-- > 0)
			worker_pool_close(&lane->pools[i]);
		return err;
	}
	return 0;
}

static void lane_close_pools(struct lane *lane)
{
	for (unsigned i = 0; i < LANE_POOL_COUNT; i++)
		worker_pool_close(&lane->pools[i]);
}

bool lane_is_working(struct lane *lane)
{
	for (unsigned i = 0; i < LANE_POOL_COUNT; i++) {
		if (!worker_pool_is_idle(&lane->pools[i]))
			return true;
	}
	return false;
}

static int lane_open_parts(struct lane *lane)
{
	struct options *options = lane->engine->options;
	unsigned ios = (unsigned)option_get(options, io_max_concurrency) /
	               lane->engine->lane_count;

	lane->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (lane->wake_fd < 0)
		return -errno;
	int err = io_table_open(&lane->ios, lane, ios > 0 ? ios : 1);
	if (err < 0)
		return err;
	err = fill_open(&lane->fill, lane->ios.count);
	if (err < 0)
		return err;
	return lane_open_pools(lane);
}

static void lane_close_parts(struct lane *lane)
{
	fill_close(&lane->fill);
	io_table_close(&lane->ios);
	if (lane->wake_fd >= 0)
		close(lane->wake_fd);
	sem_destroy(&lane->opened);
}

static int lane_start(struct lane *lane)
{
	int err = pthread_create(&lane->thread, NULL, lane_main, lane);

	if (err)
		return -err;
	while (sem_wait(&lane->opened) < 0)
		assert(errno == EINTR);
	if (lane->open_error < 0)
		pthread_join(lane->thread, NULL);
	return lane->open_error;
}

int lane_open(struct lane *lane, struct engine *engine, unsigned index, int cpu)
{
	lane->engine = engine;
	lane->index = index;
	lane->cpu = cpu;
	lane->wake_fd = -1;
	lane->local_tail = &lane->local_head;
	lane->hungry_tail = &lane->hungry_head;
	lane->wake_event.done = lane_woken;
	lane->ignored_event.done = lane_ignore;
	lane->feed_task.run = lane_feed;
	sem_init(&lane->opened, 0, 0);
	int err = lane_open_parts(lane);

	if (err < 0) {
		lane_close_parts(lane);
		return err;
	}
	err = lane_start(lane);
	if (err < 0) {
		lane_close_pools(lane);
		lane_close_parts(lane);
	}
	return err;
}

struct lane_stop {
	struct task task;
	struct lane *lane;
};

static void lane_stop(struct task *task)
{
	container_of(task, struct lane_stop, task)->lane->is_stopping = true;
}

void lane_close(struct lane *lane)
{
	struct lane_stop stop = {.task.run = lane_stop, .lane = lane};

	lane_close_pools(lane);
	lane_post(lane, &stop.task);
	pthread_join(lane->thread, NULL);
	assert(!lane->hungry_head);
	lane_close_parts(lane);
}
