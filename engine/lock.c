#include "engine/lock.h"

#include <assert.h>
#include <stdatomic.h>

static uintptr_t lock_self(void)
{
	/* The address of a thread's own variable names the thread. */
	static __thread char identity;

	return (uintptr_t)&identity;
}

void lock_init(struct lock *lock)
{
	int err = pthread_mutex_init(&lock->mutex, NULL);

	assert(!err);
	atomic_init(&lock->owner, 0);
}

void lock_done(struct lock *lock)
{
	int err = pthread_mutex_destroy(&lock->mutex);

	assert(!err);
}

void lock_acquire(struct lock *lock)
{
	assert(!lock_is_held(lock));
	int err = pthread_mutex_lock(&lock->mutex);

	assert(!err);
	atomic_store_explicit(&lock->owner, lock_self(), memory_order_relaxed);
}

void lock_release(struct lock *lock)
{
	assert(lock_is_held(lock));
	atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
	int err = pthread_mutex_unlock(&lock->mutex);

	assert(!err);
}

bool lock_is_held(const struct lock *lock)
{
	return atomic_load_explicit(&lock->owner, memory_order_relaxed) ==
	       lock_self();
}

void lock_wait(struct lock *lock, pthread_cond_t *condition)
{
	assert(lock_is_held(lock));
	atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
	int err = pthread_cond_wait(condition, &lock->mutex);

	assert(!err);
	atomic_store_explicit(&lock->owner, lock_self(), memory_order_relaxed);
}
