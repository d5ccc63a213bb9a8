#include "engine/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/backing.h"
#include "engine/cleanup.h"
#include "engine/clock.h"
#include "engine/core.h"

static size_t file_bucket(const struct engine *engine,
                          const struct file_key *key)
{
	uint64_t hash = key->inode * 0x9E3779B97F4A7C15ULL ^ key->device ^
	                key->birth * 0xC2B2AE3D27D4EB4FULL;

	return (hash >> 20) % engine->file_bucket_count;
}

static bool key_equal(const struct file_key *a, const struct file_key *b)
{
	return a->device == b->device && a->inode == b->inode &&
	       a->birth == b->birth;
}

void file_get(struct file *file)
{
	uint32_t before = atomic_fetch_add_explicit(&file->references, 1,
	                                            memory_order_relaxed);

	assert(before > 0 && before < UINT32_MAX);
}

static void file_free(struct file *file)
{
	assert(file->users == 0 && file->fd_users == 0 && file->fd < 0);
	assert(file->index.count == 0 && !file->changes);
	lock_done(&file->lock);
	free(file);
}

/* The last reference goes under files_lock, so that nobody finds a file that
 * is being freed; the others need no lock. */
static bool file_put_fast(struct file *file)
{
	uint32_t count =
		atomic_load_explicit(&file->references, memory_order_relaxed);

	while (count > 1) {
		if (atomic_compare_exchange_weak_explicit(
			    &file->references, &count, count - 1,
			    memory_order_release, memory_order_relaxed))
			return true;
	}
	return false;
}

void file_put(struct file *file)
{
	struct engine *engine = file->engine;

	if (file_put_fast(file))
		return;
	lock_acquire(&engine->files_lock);
	bool is_last = atomic_fetch_sub_explicit(&file->references, 1,
	                                         memory_order_acq_rel) == 1;

	if (is_last) {
		struct file **link =
			&engine->file_buckets[file_bucket(engine, &file->key)];

		while (*link != file)
			link = &(*link)->hash_next;
		*link = file->hash_next;
		engine->file_count--;
	}
	lock_release(&engine->files_lock);
	if (is_last)
		file_free(file);
}

static struct file *file_find_locked(struct engine *engine,
                                     const struct file_key *key)
{
	assert(lock_is_held(&engine->files_lock));
	for (struct file *file = engine->file_buckets[file_bucket(engine, key)];
	     file; file = file->hash_next) {
		if (key_equal(&file->key, key)) {
			file_get(file);
			return file;
		}
	}
	return NULL;
}

static struct file *file_new(struct engine *engine, const struct file_key *key)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->engine = engine;
	file->key = *key;
	file->fd = -1;
	lock_init(&file->lock);
	atomic_init(&file->references, 1);
	return file;
}

/* The file of @key with a reference, made if need be. */
static struct file *file_know(struct engine *engine, const struct file_key *key)
{
	scoped_lock(&engine->files_lock);
	struct file *file = file_find_locked(engine, key);

	if (file)
		return file;
	file = file_new(engine, key);
	if (!file)
		return NULL;
	struct file **bucket = &engine->file_buckets[file_bucket(engine, key)];

	file->hash_next = *bucket;
	*bucket = file;
	engine->file_count++;
	return file;
}

/* Does O_DIRECT of @fd reach the disk in units of our pages?  Some files take
 * the flag and read through the page cache all the same (ext4 with data
 * journalling or inline data), or ask for more than 4 KiB; the kernel says so
 * since 6.1, and older ones are believed. */
static bool file_is_really_direct(int fd)
{
	struct statx stat;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stat) < 0 ||
	    !(stat.stx_mask & STATX_DIOALIGN))
		return true;
	return stat.stx_dio_offset_align > 0 &&
	       stat.stx_dio_offset_align <= PAGE_BYTES &&
	       stat.stx_dio_mem_align <= PAGE_BYTES;
}

static int file_open_buffered(struct engine *engine, file_opener *open,
                              void *context)
{
	int fd = open(context, O_RDONLY);

	if (fd >= 0)
		stat_add(&engine->stats, direct_fallbacks, 1);
	return fd;
}

/* The descriptor that the engine reads from, O_DIRECT if it may be. */
static int file_open_fd(struct engine *engine, file_opener *open, void *context,
                        bool *ret_is_direct)
{
	int64_t direct = option_get(engine->options, direct);

	*ret_is_direct = direct != CHOICE_OFF;
	int fd = open(context, O_RDONLY | (*ret_is_direct ? O_DIRECT : 0));

	if (direct != CHOICE_AUTO)
		return fd;
	/* A filesystem without O_DIRECT says EINVAL at open. */
	if (fd == -EINVAL) {
		*ret_is_direct = false;
		return file_open_buffered(engine, open, context);
	}
	if (fd < 0 || file_is_really_direct(fd))
		return fd;
	close(fd);
	*ret_is_direct = false;
	return file_open_buffered(engine, open, context);
}

/* Give the file a descriptor, unless another user was faster. */
static int file_attach_fd(struct file *file, file_opener *open, void *context)
{
	bool is_direct;
	auto_close int fd =
		file_open_fd(file->engine, open, context, &is_direct);

	if (fd < 0)
		return fd;
	bool has_fine_stamps = identity_has_fine_stamps(fd);

	scoped_lock(&file->lock);
	if (file->fd < 0) {
		file->fd = steal_fd(&fd);
		file->is_direct = is_direct;
		file->has_fine_stamps = has_fine_stamps;
	}
	file->users++;
	file->fd_users++;
	return 0;
}

static bool file_join(struct file *file)
{
	scoped_lock(&file->lock);
	if (file->fd < 0)
		return false;
	file->users++;
	file->fd_users++;
	return true;
}

int file_open(struct engine *engine, const struct file_key *key,
              file_opener *open, void *context, struct file **ret_file,
              bool *ret_changed)
{
	struct file *file = file_know(engine, key);

	if (!file)
		return -ENOMEM;
	if (!file_join(file)) {
		int err = file_attach_fd(file, open, context);

		if (err < 0) {
			file_put(file);
			return err;
		}
	}
	struct statx stat;

	if (statx(file->fd, "", AT_EMPTY_PATH, IDENTITY_MASK, &stat) < 0) {
		int err = -errno;

		file_close(file);
		return err;
	}
	bool is_changed = file_check(file, &stat);

	if (ret_changed)
		*ret_changed = is_changed;
	*ret_file = file;
	return 0;
}

struct file *file_find(struct engine *engine, const struct file_key *key)
{
	lock_acquire(&engine->files_lock);
	struct file *file = file_find_locked(engine, key);

	lock_release(&engine->files_lock);
	if (!file)
		return NULL;
	scoped_lock(&file->lock);
	file->users++;
	file->fd_users++;
	return file;
}

/* Whoever takes the last fd_user closes, after the lock. */
static int file_drop_fd_locked(struct file *file, unsigned count)
{
	assert(file->fd_users >= count);
	file->fd_users -= count;
	return file->fd_users == 0 ? steal_fd(&file->fd) : -1;
}

void file_close(struct file *file)
{
	lock_acquire(&file->lock);
	assert(file->users > 0);
	file->users--;
	int fd = file_drop_fd_locked(file, 1);

	lock_release(&file->lock);
	if (fd >= 0)
		close(fd);
	file_put(file);
}

struct file_closing {
	struct task task;
	int fd;
};

static void file_close_later(struct task *task)
{
	struct file_closing *closing =
		container_of(task, struct file_closing, task);

	close(closing->fd);
	free(closing);
}

void file_release_fd(struct file *file, struct lane *lane, unsigned count)
{
	lock_acquire(&file->lock);
	int fd = file_drop_fd_locked(file, count);

	lock_release(&file->lock);
	if (fd < 0)
		return;
	struct file_closing *closing = malloc(sizeof(*closing));

	if (!closing) {
		close(fd); /* blocking beats leaking */
		return;
	}
	*closing =
		(struct file_closing){.task.run = file_close_later, .fd = fd};
	lane_work(lane, LANE_BLOCKING, &closing->task);
}

int file_descriptor(const struct file *file)
{
	/* Constant while there is a user who opened it. */
	return file->fd;
}

uint64_t file_contents(struct file *file)
{
	return atomic_load_explicit(&file->sum_id, memory_order_relaxed);
}

static uint64_t file_name_contents(const struct file *file)
{
	/* Any two states of any two files differ in something here. */
	const uint64_t words[] = {
		file->key.device,        file->key.inode,
		file->key.birth,         file->identity.size,
		file->identity.mtime_ns, file->identity.ctime_ns,
	};
	uint64_t name = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		name = (name ^ words[i]) * 0x9E3779B97F4A7C15ULL;
		name ^= name >> 29;
	}
	return name ? name : 1;
}

bool file_meets_locked(struct file *file, const struct identity *identity)
{
	assert(lock_is_held(&file->lock));
	bool is_first = !file->has_identity;
	bool is_same = !is_first && identity_equal(&file->identity, identity);

	if (file->changes && !is_first)
		return false;
	file->checked_ns = clock_now_ns();
	if (is_same)
		return false;
	file->identity = *identity;
	file->has_identity = true;
	file->size = identity->size;
	file->version++;
	atomic_store_explicit(&file->sum_id, file_name_contents(file),
	                      memory_order_relaxed);
	return !is_first;
}

void file_follow_locked(struct file *file, const struct identity *identity)
{
	assert(lock_is_held(&file->lock));
	assert(file->has_identity);
	file->identity = *identity;
	file->size = identity->size;
	file->checked_ns = clock_now_ns();
	file->change_count++;
}

/* Take @identity over if it is the first, see that it is the known one, or
 * return true: it differs. */
static bool file_doubts_locked(struct file *file,
                               const struct identity *identity)
{
	assert(lock_is_held(&file->lock));
	if (file->has_identity && !identity_equal(&file->identity, identity))
		return !file->changes;
	(void)file_meets_locked(file, identity);
	return false;
}

/* It was changed behind us: nothing that anybody has of it is right. */
static void file_disown(struct file *file)
{
	const struct engine *engine = file->engine;

	file_detach(file, 0, UINT64_MAX);
	if (engine->changed)
		engine->changed(engine->changed_context, &file->key);
}

bool file_meets(struct file *file, const struct identity *identity)
{
	struct identity fresh = *identity;

	lock_acquire(&file->lock);
	bool is_doubted = file_doubts_locked(file, identity);
	uint64_t change_count = file->change_count;
	int fd = file->fd;

	lock_release(&file->lock);
	if (!is_doubted)
		return false;
	/* It was read without the lock and may be older than a change of ours,
	 * even if that has ended: ask again, and believe it if nothing of ours
	 * came between.  On failure the first answer has to do. */
	(void)identity_read(fd, &fresh);
	lock_acquire(&file->lock);
	bool is_changed = file->change_count == change_count &&
	                  file_meets_locked(file, &fresh);

	lock_release(&file->lock);
	if (!is_changed)
		return false;
	stat_add(&file->engine->stats, identity_changes, 1);
	file_disown(file);
	return true;
}

bool file_check(struct file *file, const struct statx *stat)
{
	struct identity identity;

	identity_of(stat, &identity);
	if (file_meets(file, &identity))
		return true;

	/* It looks the same, but so might a change within the same tick. */
	lock_acquire(&file->lock);
	bool is_settled = file->changes || file->index.count == 0 ||
	                  identity_is_settled(&identity, clock_wall_ns(),
	                                      file->has_fine_stamps);

	lock_release(&file->lock);
	if (!is_settled)
		file_disown(file);
	return !is_settled;
}

bool file_has_sums_locked(const struct file *file)
{
	assert(lock_is_held(&file->lock));
	return file->is_direct && file->has_identity && !file->changes &&
	       identity_is_settled(&file->identity, clock_wall_ns(),
	                           file->has_fine_stamps);
}

void file_drop(struct file *file)
{
	file_detach(file, 0, UINT64_MAX);
}

void file_unindex_locked(struct file *file, struct page *page)
{
	struct cache *cache = &file->engine->cache;

	assert(lock_is_held(&file->lock));
	assert(page->is_indexed);
	if (page_is_valid(page))
		cache_withdraw(cache, page);
	index_remove(&file->index, cache, page->index);
	page->is_indexed = false;
}

int file_index_locked(struct file *file, struct page *page)
{
	struct cache *cache = &file->engine->cache;

	assert(lock_is_held(&file->lock));
	assert(!page->is_indexed);
	int err = index_insert(&file->index, cache, page->index,
	                       arena_number(&cache->arena, page));
	if (err < 0)
		return err;
	page->file = file;
	page->is_indexed = true;
	cache_pin(page);
	file_get(file);
	return 0;
}

bool file_detach_locked(struct file *file, uint64_t first, uint64_t last,
                        struct page_list *list)
{
	struct cache *cache = &file->engine->cache;
	uint64_t at = first;

	assert(lock_is_held(&file->lock));
	while (list->count < ARRAY_SIZE(list->pages)) {
		uint32_t number = index_next(&file->index, cache, at, &at);

		if (number == UINT32_MAX || at > last)
			return false;
		struct page *page = cache_page(cache, number);

		file_unindex_locked(file, page);
		list->pages[list->count++] = page;
	}
	return true;
}

void page_list_drop(struct engine *engine, struct page_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		engine_unpin(engine, list->pages[i]);
	stat_add(&engine->stats, invalidated_pages, list->count);
	list->count = 0;
}

void file_detach(struct file *file, uint64_t first, uint64_t last)
{
	struct page_list list = {.count = 0};
	bool is_more;

	do {
		lock_acquire(&file->lock);
		is_more = file_detach_locked(file, first, last, &list);
		lock_release(&file->lock);
		page_list_drop(file->engine, &list);
	} while (is_more);
}

enum cache_verdict file_evict(struct page *page)
{
	/* The page is pinned by the cache, so its file is there. */
	struct file *file = page->file;
	enum cache_verdict verdict;

	lock_acquire(&file->lock);
	/* Pins are made under the lock: two references are the index's and the
	 * cache's own. */
	uint32_t references = atomic_load(&page->references);

	if (!page->is_indexed) {
		lock_release(&file->lock);
		return CACHE_KEPT;
	}
	if (references > 2) {
		cache_return(&file->engine->cache, page);
		lock_release(&file->lock);
		return CACHE_KEPT;
	}
	verdict = page->is_readahead ? CACHE_EVICTED_UNREAD : CACHE_EVICTED;
	file_unindex_locked(file, page);
	lock_release(&file->lock);
	/* The index's reference; the cache's own keeps the page, and with it
	 * the file. */
	(void)cache_unpin(&file->engine->cache, page);
	return verdict;
}

void file_forget_page(struct page *page)
{
	file_put(page->file);
}
