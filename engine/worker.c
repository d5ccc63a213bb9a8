#include "engine/worker.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>

/* Tasks are system calls; the deepest of them need a few pages. */
enum { WORKER_STACK_BYTES = 256 << 10 };

void worker_bind(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	/* A CPU that was taken offline since: the scheduler knows better. */
	(void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static struct task *worker_take(struct worker_pool *pool)
{
	scoped_lock(&pool->lock);
	while (!pool->head && !pool->is_closing) {
		pool->idle_count++;
		lock_wait(&pool->lock, &pool->work_arrived);
		pool->idle_count--;
	}
	struct task *task = pool->head;

	if (!task)
		return NULL;
	pool->head = task->next;
	if (!pool->head)
		pool->tail = &pool->head;
	assert(pool->queued_count > 0);
	pool->queued_count--;
	return task;
}

static void *worker_main(void *argument)
{
	struct worker_pool *pool = argument;
	struct task *task;

	worker_bind(pool->cpu);
	/* A umask of its own; refused only by exotic sandboxes, where files
	 * are then created with the umask of the daemon added. */
	(void)unshare(CLONE_FS);
	while ((task = worker_take(pool)))
		task->run(task);

	scoped_lock(&pool->lock);
	assert(pool->thread_count > 0);
	pool->thread_count--;
	pthread_cond_signal(&pool->thread_ended);
	return NULL;
}

static int worker_start(struct worker_pool *pool)
{
	pthread_attr_t attributes;
	pthread_t thread;

	int err = pthread_attr_init(&attributes);
	if (err)
		return -err;
	pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attributes, worker_main, pool);
	pthread_attr_destroy(&attributes);
	return -err;
}

/* One more thread if the queue needs it; failing to get one only delays. */
static void worker_grow_locked(struct worker_pool *pool)
{
	assert(lock_is_held(&pool->lock));
	if (pool->queued_count <= pool->idle_count)
		return;
	if (pool->thread_count >= pool->thread_max)
		return;
	if (worker_start(pool) == 0)
		pool->thread_count++;
}

int worker_pool_open(struct worker_pool *pool, int cpu, unsigned thread_max)
{
	assert(thread_max > 0);
	*pool = (struct worker_pool){.cpu = cpu, .thread_max = thread_max};
	pool->tail = &pool->head;
	lock_init(&pool->lock);
	pthread_cond_init(&pool->work_arrived, NULL);
	pthread_cond_init(&pool->thread_ended, NULL);

	scoped_lock(&pool->lock);
	int err = worker_start(pool);
	if (err)
		return err;
	pool->thread_count = 1;
	return 0;
}

void worker_pool_close(struct worker_pool *pool)
{
	lock_acquire(&pool->lock);
	pool->is_closing = true;
	pthread_cond_broadcast(&pool->work_arrived);
	while (pool->thread_count > 0)
		lock_wait(&pool->lock, &pool->thread_ended);
	assert(!pool->head);
	lock_release(&pool->lock);

	pthread_cond_destroy(&pool->work_arrived);
	pthread_cond_destroy(&pool->thread_ended);
	lock_done(&pool->lock);
}

void worker_pool_run(struct worker_pool *pool, struct task *task)
{
	scoped_lock(&pool->lock);
	assert(!pool->is_closing);
	task->next = NULL;
	*pool->tail = task;
	pool->tail = &task->next;
	pool->queued_count++;
	worker_grow_locked(pool);
	pthread_cond_signal(&pool->work_arrived);
}

bool worker_pool_is_idle(struct worker_pool *pool)
{
	scoped_lock(&pool->lock);
	/* A thread just started counts as busy until it waits for work. */
	return pool->queued_count == 0 &&
	       pool->idle_count == pool->thread_count;
}
