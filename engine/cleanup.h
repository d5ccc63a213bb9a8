/*
 * cleanup.h - locals that clean up after themselves
 *
 * A constructor owns its half-built object through an auto_ variable and hands
 * it over with steal_ptr() at the end, so an early return needs no goto:
 *
 *	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
 *	if (fd < 0)
 *		return -errno;
 *	...
 *	*ret_fd = steal_fd(&fd);
 */
#ifndef ENGINE_CLEANUP_H
#define ENGINE_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

/* Declares auto_NAME for a type whose close function accepts NULL. */
#define AUTO_DEFINE(name, type, close)                      \
	static inline void auto_close_##name(type **object) \
	{                                                   \
		close(*object);                             \
	}

#define AUTO(name) __attribute__((cleanup(auto_close_##name)))

static inline void auto_free_pointer(void *pointer)
{
	free(*(void **)pointer);
}
#define auto_free __attribute__((cleanup(auto_free_pointer)))

static inline void auto_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define auto_close __attribute__((cleanup(auto_close_fd)))

#define steal_ptr(pointer)                                   \
	({                                                   \
		__typeof__(*(pointer)) stolen_ = *(pointer); \
		*(pointer) = NULL;                           \
		stolen_;                                     \
	})

static inline int steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

#define container_of(pointer, type, member) \
	((type *)((char *)(pointer)-offsetof(type, member)))

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif
