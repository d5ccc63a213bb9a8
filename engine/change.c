/*
 * change.c - what a write, a truncation or a chmod means for cached pages
 *
 * A page never changes once it is valid: a write puts new pages in the place
 * of the old ones, whole pages from the written bytes, partly written ones from
 * the old page and the written bytes.  What cannot be built that way is only
 * dropped.
 *
 * Two changes of the same page at the same time may reach SOURCE in either
 * order; then neither leaves pages behind.
 */
#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/backing.h"
#include "engine/cleanup.h"
#include "engine/core.h"

enum {
	/* Pages built at a time; a WRITE has at most 257. */
	CHANGE_PAGES_MAX = READ_PAGES_MAX,

	/* Pages looked at under one hold of the file's lock. */
	CHANGE_WALK_PAGES = 1024,

	/* Each time another change of the file got on: with 256 workers a lane
	 * so many in a row do not happen, and giving up only costs the cache.
	 */
	FOLLOW_ATTEMPTS_MAX = 1000,
};

static bool change_touches(const struct change *change, uint64_t first,
                           uint64_t last)
{
	return change->first <= last && first <= change->last;
}

/* Empty (attributes only): first is greater than last, and touches nothing. */
static void change_set_range(struct change *change, uint64_t offset,
                             uint64_t length)
{
	if (length == 0) {
		change->first = UINT64_MAX;
		change->last = 0;
		return;
	}
	change->first = page_of(offset);
	change->last = length > UINT64_MAX - offset
	                       ? UINT64_MAX
	                       : page_of(offset + length - 1);
}

static bool change_has_range(const struct change *change)
{
	return change->first <= change->last;
}

static void change_enter_locked(struct file *file, struct change *change)
{
	assert(lock_is_held(&file->lock));
	for (struct change *other = file->changes; other; other = other->next) {
		if (!change_has_range(change) ||
		    !change_touches(other, change->first, change->last))
			continue;
		other->overlaps = true;
		change->overlaps = true;
	}
	change->next = file->changes;
	file->changes = change;
	file->change_count++;
}

static void change_leave_locked(struct file *file, struct change *change)
{
	struct change **link = &file->changes;

	assert(lock_is_held(&file->lock));
	while (*link != change) {
		assert(*link);
		link = &(*link)->next;
	}
	*link = change->next;
	file->change_count++;
}

/* Take pages that are being read out of the index, from *@at on.  True: there
 * may be more. */
static bool change_disown_locked(struct file *file, const struct change *change,
                                 uint64_t *at, struct page_list *list)
{
	struct cache *cache = &file->engine->cache;

	for (size_t i = 0; i < CHANGE_WALK_PAGES; i++) {
		if (list->count == ARRAY_SIZE(list->pages))
			return true;
		uint32_t number = index_next(&file->index, cache, *at, at);

		if (number == UINT32_MAX || *at > change->last)
			return false;
		struct page *page = cache_page(cache, number);

		++*at;
		if (page_is_valid(page))
			continue;
		file_unindex_locked(file, page);
		list->pages[list->count++] = page;
	}
	return true;
}

/* Pages in the range that are being read may hold either state, and will not be
 * cached.  Their readers run beside the change. */
static void change_disown_fills(struct file *file, const struct change *change)
{
	struct page_list list = {.count = 0};
	uint64_t at = change->first;
	bool is_more;

	do {
		lock_acquire(&file->lock);
		is_more = change_disown_locked(file, change, &at, &list);
		lock_release(&file->lock);
		page_list_drop(file->engine, &list);
	} while (is_more);
}

/* No sum in the range holds any more.  Beyond the end of the file there are
 * none, and looking for them would cost more than the write. */
static void change_forget_sums(struct file *file, const struct change *change)
{
	lock_acquire(&file->lock);
	uint64_t last = page_of(file->size);

	lock_release(&file->lock);
	if (last > change->last)
		last = change->last;
	if (change->first <= last)
		sums_forget(&file->engine->sums, file->sum_id, change->first,
		            last);
}

void file_change_begin(struct file *file, struct change *change,
                       uint64_t offset, uint64_t length)
{
	struct identity identity;

	*change = (struct change){0};
	change_set_range(change, offset, length);
	/* What somebody else did before us must not pass as ours. */
	if (file->fd >= 0 && identity_read(file->fd, &identity) == 0) {
		(void)file_meets(file, &identity);
		change->is_clean = true;
	}
	lock_acquire(&file->lock);
	change_enter_locked(file, change);
	lock_release(&file->lock);
	if (!change_has_range(change))
		return;
	change_forget_sums(file, change);
	change_disown_fills(file, change);
}

/* The pages that a write leaves: built outside the lock as far as possible. */
struct change_pages {
	struct page *pages[CHANGE_PAGES_MAX];
	uint64_t first;
	size_t count;
	const char *data;
	uint64_t offset;
	size_t length;
};

static uint64_t page_start(const struct change_pages *built, size_t i)
{
	return (built->first + i) << PAGE_SHIFT;
}

static bool page_is_whole(const struct change_pages *built, size_t i)
{
	uint64_t start = page_start(built, i);

	return start >= built->offset &&
	       start + PAGE_BYTES <= built->offset + built->length;
}

/* Lay the written bytes over page @i in @memory. */
static void page_overlay(const struct change_pages *built, size_t i,
                         char *memory)
{
	uint64_t start = page_start(built, i);
	uint64_t end = start + PAGE_BYTES;
	uint64_t from = built->offset > start ? built->offset : start;
	uint64_t to = built->offset + built->length;

	if (to > end)
		to = end;
	memcpy(memory + (from - start), built->data + (from - built->offset),
	       to - from);
}

/* Take pages for the written bytes and fill the whole ones.  Without memory
 * nothing is kept. */
static void change_build(struct file *file, struct change_pages *built)
{
	struct cache *cache = &file->engine->cache;
	uint64_t last = page_of(built->offset + built->length - 1);

	built->first = page_of(built->offset);
	built->count = last - built->first + 1;
	if (built->count > CHANGE_PAGES_MAX ||
	    !cache_take(cache, built->pages, built->count, false)) {
		built->count = 0;
		return;
	}
	for (size_t i = 0; i < built->count; i++) {
		if (page_is_whole(built, i))
			page_overlay(built, i,
			             cache_memory(cache, built->pages[i]));
	}
}

static struct page *change_old_locked(struct file *file, uint64_t page_index)
{
	struct index_cursor cursor = {0};
	struct cache *cache = &file->engine->cache;
	uint32_t number = index_find(&file->index, cache, page_index, &cursor);

	return number == UINT32_MAX ? NULL : cache_page(cache, number);
}

/*
 * Complete a page that was written in part, from what stood there: the old
 * page, or nothing if the file ends with the written bytes.  False: what stands
 * there is not known.
 */
static bool change_complete_locked(struct file *file,
                                   const struct change_pages *built, size_t i)
{
	struct cache *cache = &file->engine->cache;
	char *memory = cache_memory(cache, built->pages[i]);
	struct page *old = change_old_locked(file, built->first + i);

	if (old && page_is_valid(old)) {
		memcpy(memory, cache_memory(cache, old), PAGE_BYTES);
	} else if (page_start(built, i) >= built->offset &&
	           built->offset + built->length >= file->size) {
		memset(memory, 0, PAGE_BYTES);
	} else {
		return false;
	}
	page_overlay(built, i, memory);
	return true;
}

/* Put the built pages into the places that the change has emptied; those that
 * find a place leave built->pages. */
static void change_insert_locked(struct file *file, struct change_pages *built,
                                 const bool *is_complete)
{
	struct engine *engine = file->engine;
	struct page *valid[CHANGE_PAGES_MAX];
	bool has_sums = file_has_sums_locked(file) &&
	                option_get(engine->options, checksums);
	size_t n = 0;

	for (size_t i = 0; i < built->count; i++) {
		struct page *page = built->pages[i];

		/* Somebody may be reading the page again already. */
		if (!is_complete[i] ||
		    change_old_locked(file, built->first + i))
			continue;
		page->index = built->first + i;
		if (file_index_locked(file, page) < 0)
			break;
		page->state = PAGE_VALID;
		valid[n++] = page;
		if (!has_sums)
			continue;
		sums_learn(&engine->sums, file->sum_id, file->change_count,
		           page->index,
		           checksum_page(cache_memory(&engine->cache, page),
		                         file->sum_id, page->index));
	}
	cache_publish(&engine->cache, valid, n, file->sum_id);
	stat_add(&engine->stats, write_pages_kept, n);
}

/* Drop what the change made old, keep what it wrote, and end it: in one hold of
 * the lock, so that no fill that saw the change in progress is believed. */
static void change_replace(struct file *file, struct change *change,
                           struct change_pages *built)
{
	struct page_list list = {.count = 0};
	bool is_complete[CHANGE_PAGES_MAX] = {false};

	lock_acquire(&file->lock);
	for (size_t i = 0; i < built->count; i++)
		is_complete[i] = page_is_whole(built, i) ||
		                 change_complete_locked(file, built, i);
	for (;;) {
		bool is_more = change_has_range(change) &&
		               file_detach_locked(file, change->first,
		                                  change->last, &list);

		if (!is_more)
			break;
		lock_release(&file->lock);
		page_list_drop(file->engine, &list);
		lock_acquire(&file->lock);
	}
	change_leave_locked(file, change);
	if (!change->overlaps)
		change_insert_locked(file, built, is_complete);
	lock_release(&file->lock);
	page_list_drop(file->engine, &list);
}

/* Take over what the file is now, unless another change got ahead of us: what
 * it took over is newer than what we have read. */
static bool change_try_follow(struct file *file,
                              const struct identity *identity,
                              uint64_t change_count)
{
	scoped_lock(&file->lock);
	if (file->change_count != change_count)
		return false;
	file_follow_locked(file, identity);
	return true;
}

static uint64_t change_count(struct file *file)
{
	scoped_lock(&file->lock);
	return file->change_count;
}

/* What the file is after the change.  False: not known. */
static bool change_follow(struct file *file, struct change *change)
{
	struct identity identity;

	if (!change->is_clean)
		return false;
	for (unsigned i = 0; i < FOLLOW_ATTEMPTS_MAX; i++) {
		uint64_t count = change_count(file);

		if (identity_read(file->fd, &identity) < 0)
			return false;
		if (change_try_follow(file, &identity, count))
			return true;
	}
	return false;
}

void file_change_end(struct file *file, struct change *change, const void *data,
                     uint64_t offset, size_t length)
{
	struct change_pages built = {
		.data = data,
		.offset = offset,
		.length = length,
	};
	bool is_known = change_follow(file, change);

	if (data && length > 0 && is_known)
		change_build(file, &built);
	/* Without a way to see what the file is now, nothing of it is known. */
	if (!is_known)
		change_set_range(change, 0, FILE_TO_END);
	change_replace(file, change, &built);
	for (size_t i = 0; i < built.count; i++)
		engine_unpin(file->engine, built.pages[i]);
}
