/*
 * lock.h - a mutex that knows its owner
 *
 * scoped_lock() holds a lock to the end of the enclosing block.  A function
 * named _locked asserts lock_is_held(), which is exact: it asks whether this
 * very thread holds the lock.
 */
#ifndef ENGINE_LOCK_H
#define ENGINE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct lock {
	pthread_mutex_t mutex;

	/* Thread that holds the mutex, 0 when nobody does.  Relaxed: only the
	 * owner itself can find its own identity here. */
	_Atomic(uintptr_t) owner;
};

void lock_init(struct lock *lock);
void lock_done(struct lock *lock);
void lock_acquire(struct lock *lock);
void lock_release(struct lock *lock);
bool lock_is_held(const struct lock *lock);

/* pthread_cond_wait(3): gives the lock up while it waits. */
void lock_wait(struct lock *lock, pthread_cond_t *condition);

static inline void lock_release_scoped(struct lock **lock)
{
	lock_release(*lock);
}

static inline struct lock *lock_acquire_scoped(struct lock *lock)
{
	lock_acquire(lock);
	return lock;
}

#define LOCK_JOIN_(a, b) a##b
#define LOCK_JOIN(a, b)  LOCK_JOIN_(a, b)
#define scoped_lock(held)                                                   \
	__attribute__((cleanup(lock_release_scoped), unused)) struct lock * \
	LOCK_JOIN(scoped_lock_, __LINE__) = lock_acquire_scoped(held)

#endif
