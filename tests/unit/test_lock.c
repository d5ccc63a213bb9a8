/*
 * lock_is_held() is exact: true for the thread that holds the lock and for no
 * other at any moment, or the assertions that rest on it mean nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <semaphore.h>

#include "engine/lock.h"

enum { THREADS = 8, ROUNDS = 20000 };

struct fixture {
	struct lock lock;
	pthread_cond_t condition;
	sem_t step;
	sem_t reached;
	unsigned counter;
	unsigned failures;
	bool is_told;
};

static int set_up(void **state)
{
	static struct fixture fixture;

	fixture = (struct fixture){.counter = 0};
	lock_init(&fixture.lock);
	pthread_cond_init(&fixture.condition, NULL);
	sem_init(&fixture.step, 0, 0);
	sem_init(&fixture.reached, 0, 0);
	*state = &fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	assert_false(lock_is_held(&fixture->lock));
	lock_done(&fixture->lock);
	pthread_cond_destroy(&fixture->condition);
	sem_destroy(&fixture->step);
	sem_destroy(&fixture->reached);
	return 0;
}

static void a_scope_ends_the_hold(void **state)
{
	struct fixture *fixture = *state;

	assert_false(lock_is_held(&fixture->lock));
	{
		scoped_lock(&fixture->lock);
		assert_true(lock_is_held(&fixture->lock));
	}
	assert_false(lock_is_held(&fixture->lock));
}

static void two_locks_are_told_apart(void **state)
{
	struct fixture *fixture = *state;
	struct lock other;

	lock_init(&other);
	lock_acquire(&other);
	assert_false(lock_is_held(&fixture->lock));
	lock_acquire(&fixture->lock);
	lock_release(&other);
	assert_true(lock_is_held(&fixture->lock));
	assert_false(lock_is_held(&other));
	lock_release(&fixture->lock);
	lock_done(&other);
}

static void *hold_once(void *argument)
{
	struct fixture *fixture = argument;

	lock_acquire(&fixture->lock);
	sem_post(&fixture->reached);
	sem_wait(&fixture->step);
	lock_release(&fixture->lock);
	sem_post(&fixture->reached);
	return NULL;
}

static void what_another_thread_holds_is_not_ours(void **state)
{
	struct fixture *fixture = *state;
	pthread_t thread;

	pthread_create(&thread, NULL, hold_once, fixture);
	sem_wait(&fixture->reached);
	assert_false(lock_is_held(&fixture->lock));
	sem_post(&fixture->step);
	sem_wait(&fixture->reached);
	pthread_join(thread, NULL);
}

static void *wait_told(void *argument)
{
	struct fixture *fixture = argument;

	scoped_lock(&fixture->lock);
	sem_post(&fixture->reached);
	while (!fixture->is_told)
		lock_wait(&fixture->lock, &fixture->condition);
	if (!lock_is_held(&fixture->lock))
		fixture->failures++;
	return NULL;
}

static void waiting_gives_the_lock_up(void **state)
{
	struct fixture *fixture = *state;
	pthread_t thread;

	pthread_create(&thread, NULL, wait_told, fixture);
	sem_wait(&fixture->reached);
	lock_acquire(&fixture->lock); /* only if the waiter gave it up */
	fixture->is_told = true;
	pthread_cond_signal(&fixture->condition);
	assert_true(lock_is_held(&fixture->lock));
	lock_release(&fixture->lock);
	pthread_join(thread, NULL);
	assert_int_equal(fixture->failures, 0);
}

static void *contend(void *argument)
{
	struct fixture *fixture = argument;

	for (unsigned i = 0; i < ROUNDS; i++) {
		bool is_wrong = lock_is_held(&fixture->lock);

		scoped_lock(&fixture->lock);
		fixture->counter++;
		fixture->failures += is_wrong || !lock_is_held(&fixture->lock);
	}
	return NULL;
}

static void many_threads_agree(void **state)
{
	struct fixture *fixture = *state;
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, contend, fixture);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(fixture->counter, THREADS * ROUNDS);
	assert_int_equal(fixture->failures, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_scope_ends_the_hold),
		TEST(two_locks_are_told_apart),
		TEST(what_another_thread_holds_is_not_ours),
		TEST(waiting_gives_the_lock_up),
		TEST(many_threads_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
