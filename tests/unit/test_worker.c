/*
 * Every task runs, exactly once, also when it was posted just before the pool
 * closes; tasks that block do not keep others from running as long as the pool
 * may grow; and a pool of one keeps their order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "engine/cleanup.h"
#include "engine/worker.h"

enum { TASKS = 5000 };

struct job {
	struct task task;
	_Atomic(unsigned) *counter;
	unsigned expected;
	unsigned seen;
	sem_t *gate;
	sem_t *reached;
};

static void count(struct task *task)
{
	struct job *job = container_of(task, struct job, task);

	job->seen = atomic_fetch_add(job->counter, 1);
}

static void block(struct task *task)
{
	struct job *job = container_of(task, struct job, task);

	sem_post(job->reached);
	sem_wait(job->gate);
	sem_post(job->gate);
	count(task);
}

static struct job *jobs_new(size_t number, _Atomic(unsigned) *counter)
{
	struct job *jobs = calloc(number, sizeof(*jobs));

	assert_non_null(jobs);
	for (size_t i = 0; i < number; i++) {
		jobs[i].task.run = count;
		jobs[i].counter = counter;
	}
	return jobs;
}

static void closing_runs_what_is_queued(void **state)
{
	static const unsigned threads[] = {1, 2, 16};

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		_Atomic(unsigned) counter = 0;
		auto_free struct job *jobs = jobs_new(TASKS, &counter);
		struct worker_pool pool;

		assert_int_equal(worker_pool_open(&pool, -1, threads[i]), 0);
		for (unsigned k = 0; k < TASKS; k++)
			worker_pool_run(&pool, &jobs[k].task);
		worker_pool_close(&pool);
		assert_int_equal(atomic_load(&counter), TASKS);
		if (threads[i] > 1)
			continue;
		for (unsigned k = 0; k < TASKS; k++)
			assert_int_equal(jobs[k].seen, k);
	}
}

static void an_idle_pool_closes(void **state)
{
	struct worker_pool pool;

	assert_int_equal(worker_pool_open(&pool, 0, 4), 0);
	worker_pool_close(&pool);
}

/* Eight tasks wait for the gate: all have started, so all have a thread. */
static void a_pool_grows_for_tasks_that_block(void **state)
{
	_Atomic(unsigned) counter = 0;
	auto_free struct job *jobs = jobs_new(8, &counter);
	struct worker_pool pool;
	sem_t gate;
	sem_t reached;

	sem_init(&gate, 0, 0);
	sem_init(&reached, 0, 0);
	assert_int_equal(worker_pool_open(&pool, 0, 8), 0);
	for (unsigned i = 0; i < 8; i++) {
		jobs[i].task.run = block;
		jobs[i].gate = &gate;
		jobs[i].reached = &reached;
		worker_pool_run(&pool, &jobs[i].task);
	}
	for (unsigned i = 0; i < 8; i++)
		sem_wait(&reached);
	assert_false(worker_pool_is_idle(&pool));
	assert_int_equal(atomic_load(&counter), 0);
	assert_int_equal(pool.thread_count, 8);
	sem_post(&gate);
	worker_pool_close(&pool);
	assert_int_equal(atomic_load(&counter), 8);
	sem_destroy(&gate);
	sem_destroy(&reached);
}

static void a_full_pool_keeps_tasks_for_later(void **state)
{
	_Atomic(unsigned) counter = 0;
	auto_free struct job *jobs = jobs_new(20, &counter);
	struct worker_pool pool;
	sem_t gate;
	sem_t reached;

	sem_init(&gate, 0, 0);
	sem_init(&reached, 0, 0);
	assert_int_equal(worker_pool_open(&pool, -1, 2), 0);
	for (unsigned i = 0; i < 20; i++) {
		if (i < 2)
			jobs[i].task.run = block;
		jobs[i].gate = &gate;
		jobs[i].reached = &reached;
		worker_pool_run(&pool, &jobs[i].task);
	}
	sem_wait(&reached);
	sem_wait(&reached);
	assert_int_equal(atomic_load(&counter), 0);
	assert_false(worker_pool_is_idle(&pool));
	sem_post(&gate);
	while (!worker_pool_is_idle(&pool))
		sched_yield();
	assert_int_equal(atomic_load(&counter), 20);
	worker_pool_close(&pool);
	sem_destroy(&gate);
	sem_destroy(&reached);
}

static void change_umask(struct task *task)
{
	umask(0);
	count(task);
}

static void a_task_may_have_a_umask_of_its_own(void **state)
{
	_Atomic(unsigned) counter = 0;
	struct job job = {.task.run = change_umask, .counter = &counter};
	struct worker_pool pool;
	mode_t before = umask(0027);

	assert_int_equal(worker_pool_open(&pool, -1, 1), 0);
	worker_pool_run(&pool, &job.task);
	worker_pool_close(&pool);
	assert_int_equal(umask(before), 0027);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closing_runs_what_is_queued),
		cmocka_unit_test(an_idle_pool_closes),
		cmocka_unit_test(a_pool_grows_for_tasks_that_block),
		cmocka_unit_test(a_full_pool_keeps_tasks_for_later),
		cmocka_unit_test(a_task_may_have_a_umask_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
