#include "fs/descriptor.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/cleanup.h"

struct descriptor_cache {
	/* Set by descriptor_cache_open(), never changed. */
	int mount_fd; /* where handles are opened; -1: they do not work */
	unsigned open_max;

	/* Protected by lock.  idle is the head of a ring, oldest first, of
	 * what may be closed: open, without users, with a handle, not kept. */
	struct lock lock;
	unsigned open_count;
	struct descriptor idle;
};

union handle_buffer {
	struct file_handle handle;
	char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
};

static int handle_encode(int fd, union handle_buffer *buffer)
{
	int mount_id;

	buffer->handle.handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(fd, "", &buffer->handle, &mount_id,
	                      AT_EMPTY_PATH))
		return -errno;
	return 0;
}

static int handle_open(int mount_fd, struct file_handle *handle)
{
	int fd = open_by_handle_at(mount_fd, handle,
	                           O_PATH | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* A descriptor for open_by_handle_at(2), which does not take O_PATH, or -1: the
 * directory cannot be read, handles cannot be made, or not be opened. */
static int mount_probe(int root_fd)
{
	union handle_buffer buffer;
	auto_close int probe = -1;
	auto_close int mount_fd =
		openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (mount_fd < 0 || handle_encode(root_fd, &buffer))
		return -1;
	probe = handle_open(mount_fd, &buffer.handle);
	return probe < 0 ? -1 : steal_fd(&mount_fd);
}

/* Half of the limit: the other half is for files that programs open. */
static unsigned open_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > UINT32_MAX)
		return UINT32_MAX / 2;
	return (unsigned)limit.rlim_cur / 2;
}

int descriptor_cache_open(int root_fd, struct descriptor_cache **ret_cache)
{
	struct descriptor_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	lock_init(&cache->lock);
	cache->mount_fd = mount_probe(root_fd);
	cache->open_max = open_limit();
	cache->idle.older = &cache->idle;
	cache->idle.newer = &cache->idle;
	*ret_cache = cache;
	return 0;
}

void descriptor_cache_close(struct descriptor_cache *cache)
{
	if (!cache)
		return;
	assert(cache->open_count == 0);
	assert(cache->idle.newer == &cache->idle);
	if (cache->mount_fd >= 0)
		close(cache->mount_fd);
	lock_done(&cache->lock);
	free(cache);
}

struct file_handle *descriptor_encode(const struct descriptor_cache *cache,
                                      int fd)
{
	union handle_buffer buffer;

	if (cache->mount_fd < 0 || handle_encode(fd, &buffer))
		return NULL;

	size_t size = sizeof(buffer.handle) + buffer.handle.handle_bytes;
	struct file_handle *handle = malloc(size);

	if (handle)
		memcpy(handle, &buffer, size);
	return handle;
}

uint64_t descriptor_generation(int fd)
{
	union handle_buffer buffer;
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a, 64 bits */

	if (handle_encode(fd, &buffer))
		return 0;
	for (size_t i = 0; i < buffer.handle.handle_bytes; i++) {
		hash ^= buffer.handle.f_handle[i];
		hash *= 0x100000001b3;
	}
	return hash;
}

void descriptor_init(struct descriptor *descriptor, struct file_handle *handle)
{
	*descriptor = (struct descriptor){.handle = handle, .fd = -1};
}

static void idle_remove_locked(struct descriptor_cache *cache,
                               struct descriptor *descriptor)
{
	assert(lock_is_held(&cache->lock));
	if (!descriptor->newer)
		return;
	descriptor->newer->older = descriptor->older;
	descriptor->older->newer = descriptor->newer;
	descriptor->older = NULL;
	descriptor->newer = NULL;
}

static void idle_append_locked(struct descriptor_cache *cache,
                               struct descriptor *descriptor)
{
	assert(lock_is_held(&cache->lock));
	assert(!descriptor->newer);
	descriptor->newer = &cache->idle;
	descriptor->older = cache->idle.older;
	descriptor->older->newer = descriptor;
	cache->idle.older = descriptor;
}

/* Close the oldest idle descriptor if more than @open_max are open. */
static bool cache_evict(struct descriptor_cache *cache, unsigned open_max)
{
	/* Declared first, closed last: without the lock. */
	auto_close int fd = -1;
	scoped_lock(&cache->lock);
	struct descriptor *oldest = cache->idle.newer;

	if (cache->open_count <= open_max || oldest == &cache->idle)
		return false;
	assert(oldest->users == 0);
	idle_remove_locked(cache, oldest);
	fd = steal_fd(&oldest->fd);
	cache->open_count--;
	return true;
}

bool descriptor_shed(struct descriptor_cache *cache)
{
	return cache_evict(cache, 0);
}

/* The open descriptor, pinned, or -1. */
static int cache_pin(struct descriptor_cache *cache,
                     struct descriptor *descriptor)
{
	scoped_lock(&cache->lock);
	if (descriptor->fd < 0)
		return -1;
	idle_remove_locked(cache, descriptor);
	descriptor->users++;
	return descriptor->fd;
}

int descriptor_get(struct descriptor_cache *cache,
                   struct descriptor *descriptor)
{
	int fd = cache_pin(cache, descriptor);

	if (fd >= 0)
		return fd;
	assert(descriptor->handle);
	do
		fd = handle_open(cache->mount_fd, descriptor->handle);
	while (fd == -EMFILE && descriptor_shed(cache));
	if (fd < 0)
		return fd == -EMFILE ? -ENFILE : fd;
	return descriptor_give(cache, descriptor, fd);
}

/* Leaves *@fd alone if somebody else was faster. */
static int cache_install(struct descriptor_cache *cache,
                         struct descriptor *descriptor, int *fd)
{
	scoped_lock(&cache->lock);
	if (descriptor->fd < 0) {
		descriptor->fd = steal_fd(fd);
		cache->open_count++;
	}
	idle_remove_locked(cache, descriptor);
	descriptor->users++;
	return descriptor->fd;
}

int descriptor_give(struct descriptor_cache *cache,
                    struct descriptor *descriptor, int fd)
{
	auto_close int spare = fd;
	int pinned;

	assert(fd >= 0);
	pinned = cache_install(cache, descriptor, &spare);
	while (cache_evict(cache, cache->open_max))
		;
	return pinned;
}

void descriptor_put(struct descriptor_cache *cache,
                    struct descriptor *descriptor)
{
	scoped_lock(&cache->lock);
	assert(descriptor->users > 0);
	descriptor->users--;
	if (descriptor->users == 0 && descriptor->handle && !descriptor->keeps)
		idle_append_locked(cache, descriptor);
}

void descriptor_keep(struct descriptor_cache *cache,
                     struct descriptor *descriptor)
{
	scoped_lock(&cache->lock);
	assert(descriptor->users > 0);
	descriptor->keeps++;
}

void descriptor_unkeep(struct descriptor_cache *cache,
                       struct descriptor *descriptor)
{
	scoped_lock(&cache->lock);
	assert(descriptor->users > 0);
	assert(descriptor->keeps > 0);
	descriptor->keeps--;
}

int descriptor_retire(struct descriptor_cache *cache,
                      struct descriptor *descriptor)
{
	scoped_lock(&cache->lock);
	assert(descriptor->users == 0);
	idle_remove_locked(cache, descriptor);
	if (descriptor->fd >= 0)
		cache->open_count--;
	free(steal_ptr(&descriptor->handle));
	return steal_fd(&descriptor->fd);
}

void descriptor_name(int fd, char *ret_name)
{
	assert(fd >= 0);
	(void)snprintf(ret_name, DESCRIPTOR_NAME_BYTES, "%d", fd);
}
