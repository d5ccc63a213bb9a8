/*
 * read.c - a byte range becomes pages: found, waited for, or claimed
 */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/backing.h"
#include "engine/cleanup.h"
#include "engine/clock.h"
#include "engine/core.h"

enum {
	/* A read that met a change of identity starts over, so that it never
	 * mixes two states; after so many a file that changes all the time is
	 * answered as it comes. */
	READ_RESTARTS_MAX = 3,

	/* An answer that ends at the end of file is confirmed by a stat older
	 * than this: somebody may append behind the mount. */
	READ_END_TRUSTED_NS = 1000000000,

	/* Pages taken from the cache at a time for readahead. */
	READAHEAD_BATCH = 256,
};

static uint64_t read_first(const struct read *read)
{
	return page_of(read->offset);
}

/* The page counted from the start of the file that slot @i stands for. */
static uint64_t read_index(const struct read *read, size_t i)
{
	return read_first(read) + i;
}

/* How many pages the read needs, by the size known now.  0: at or past the end
 * of the file. */
static uint32_t read_span_locked(const struct read *read)
{
	const struct file *file = read->file;

	assert(lock_is_held(&file->lock));
	if (read->length == 0 || read->offset >= file->size)
		return 0;
	uint64_t left = file->size - read->offset;
	uint64_t length = left < read->length ? left : read->length;

	return (uint32_t)(page_of(read->offset + length - 1) -
	                  read_first(read) + 1);
}

/* Does the answer end at an end of file that was not confirmed lately? */
static bool read_doubts_end_locked(const struct read *read)
{
	const struct file *file = read->file;

	return read->offset + read->length > file->size &&
	       clock_now_ns() - file->checked_ns > READ_END_TRUSTED_NS;
}

static void read_confirm_end(struct read *read)
{
	struct file *file = read->file;
	struct identity identity;

	lock_acquire(&file->lock);
	bool has_doubt = read_doubts_end_locked(read);

	lock_release(&file->lock);
	if (has_doubt && identity_read(file->fd, &identity) == 0)
		(void)file_meets(file, &identity);
}

/* Wait for a page that is being read. */
static void read_wait_locked(struct read *read, size_t i)
{
	struct page *page = read->pages[i];
	struct page_waiter *waiter = &read->waiters[i];

	waiter->read = read;
	waiter->next = page->waiters;
	page->waiters = waiter;
	atomic_store_explicit(&page->is_wanted, true, memory_order_relaxed);
	atomic_fetch_add_explicit(&read->missing, 1, memory_order_relaxed);
}

/* A reader meets a page that was read ahead: once. */
static void read_use_ahead_locked(struct read *read, struct page *page)
{
	struct stats_block *stats = &read->lane->stats;

	if (!page->is_readahead)
		return;
	page->is_readahead = false;
	stat_add(stats, readahead_used, 1);
	if (!page_is_valid(page))
		stat_add(stats, readahead_late, 1);
}

/* Pin what is in the cache, join what is being read.  Returns how many pages
 * nobody reads yet; their slots are NULL. */
static uint32_t read_pin_locked(struct read *read)
{
	struct lane *lane = read->lane;
	struct cache *cache = &lane->engine->cache;
	struct index_cursor cursor = {0};
	uint32_t absent = 0;
	uint32_t hits = 0;
	uint32_t joins = 0;

	for (uint32_t i = 0; i < read->page_count; i++) {
		if (read->pages[i])
			continue;
		uint32_t number = index_find(&read->file->index, cache,
		                             read_index(read, i), &cursor);

		if (number == UINT32_MAX) {
			absent++;
			continue;
		}
		struct page *page = cache_page(cache, number);
		bool was_ahead = page->is_readahead;

		cache_pin(page);
		read->pages[i] = page;
		read_use_ahead_locked(read, page);
		if (page_is_valid(page)) {
			hits++;
			/* The first use of what was read ahead is no reuse. */
			if (!was_ahead)
				cache_touch(cache, page);
		} else {
			joins++;
			read_wait_locked(read, i);
		}
	}
	read->hits += hits;
	read->joins += joins;
	return absent;
}

/* Enter a fresh page as being read.  -ENOMEM: no memory for the index. */
static int claim_locked(struct file *file, struct page *page,
                        uint64_t page_index)
{
	page->index = page_index;
	int err = file_index_locked(file, page);

	if (err == 0)
		file->fd_users++;
	return err;
}

/*
 * Claim the absent pages with @fresh, as far as they are still absent.
 * Returns how many of @fresh were used; *@ret_error is -ENOMEM if one could not
 * be entered, with its slot still NULL.
 */
static uint32_t read_claim_locked(struct read *read, struct page **fresh,
                                  uint32_t count, int *ret_error)
{
	struct lane *lane = read->lane;
	uint32_t used = 0;

	*ret_error = 0;
	for (uint32_t i = 0; i < read->page_count; i++) {
		if (read->pages[i])
			continue;
		/* No more can be absent than were counted: pins last. */
		assert(used < count);
		struct page *page = fresh[used];

		*ret_error =
			claim_locked(read->file, page, read_index(read, i));
		if (*ret_error < 0)
			break;
		used++;
		/* The taker's reference is the I/O's; this is the reader's. */
		cache_pin(page);
		read->pages[i] = page;
		read_wait_locked(read, i);
		fill_add(lane, page);
	}
	read->misses += used;
	return used;
}

static void pages_give_back(struct engine *engine, struct page **pages,
                            size_t count)
{
	for (size_t i = 0; i < count; i++)
		engine_unpin(engine, pages[i]);
}

/* Take the read's waiter out of the page's list. */
static void read_unwait_locked(struct read *read, size_t i)
{
	struct page_waiter **link = &read->pages[i]->waiters;

	while (*link && *link != &read->waiters[i])
		link = &(*link)->next;
	if (!*link)
		return;
	*link = read->waiters[i].next;
	atomic_fetch_sub_explicit(&read->missing, 1, memory_order_relaxed);
}

static void read_unpin(struct read *read)
{
	for (uint32_t i = 0; i < read->page_count; i++) {
		if (read->pages[i])
			engine_unpin(read->lane->engine, read->pages[i]);
		read->pages[i] = NULL;
	}
	read->page_count = 0;
}

/* Hold nothing while waiting for memory: somebody else needs it to go on.  A
 * page that arrived just now may still be telling us so: see read_arrived(). */
static void read_starve(struct read *read)
{
	struct file *file = read->file;

	lock_acquire(&file->lock);
	for (uint32_t i = 0; i < read->page_count; i++) {
		if (read->pages[i])
			read_unwait_locked(read, i);
	}
	lock_release(&file->lock);
	read_unpin(read);
	read->is_starved = true;
}

/* Wait for free pages. */
static void read_rest(struct read *read)
{
	struct lane *lane = read->lane;

	stat_add(&lane->stats, cache_waits, 1);
	read->is_starved = false;
	read->next_hungry = NULL;
	*lane->hungry_tail = read;
	lane->hungry_tail = &read->next_hungry;
}

void read_feed(struct lane *lane)
{
	struct read *read = lane->hungry_head;

	assert(lane_is_current(lane));
	lane->hungry_head = NULL;
	lane->hungry_tail = &lane->hungry_head;
	while (read) {
		struct read *next = read->next_hungry;

		read_continue(read);
		read = next;
	}
}

/*
 * Every page of the read is pinned, joined or claimed.  False: there is not
 * enough memory now, and the read holds nothing.
 */
static bool read_gather(struct read *read)
{
	struct lane *lane = read->lane;
	struct file *file = read->file;
	struct page *fresh[READ_PAGES_MAX];
	int err;

	lock_acquire(&file->lock);
	read->version = file->version;
	read->page_count = read_span_locked(read);
	read->size = file->size;
	read->hits = 0;
	read->joins = 0;
	read->misses = 0;
	memset(read->pages, 0, read->page_count * sizeof(read->pages[0]));
	uint32_t absent = read_pin_locked(read);

	lock_release(&file->lock);
	if (absent == 0)
		return true;
	if (!fill_take(lane, fresh, absent)) {
		read_starve(read);
		return false;
	}

	lock_acquire(&file->lock);
	uint32_t still_absent = read_pin_locked(read);
	uint32_t used = read_claim_locked(read, fresh, still_absent, &err);

	lock_release(&file->lock);
	pages_give_back(lane->engine, fresh + used, absent - used);
	if (err == 0)
		return true;
	/* Other readers used up the reserve for the index; taking pages again
	 * restores it. */
	read_starve(read);
	engine_feed(lane->engine);
	return false;
}

/* The limits of readahead on this file now. */
static struct stream_limits read_limits_locked(const struct read *read)
{
	struct engine *engine = read->lane->engine;
	uint64_t window =
		(uint64_t)option_get(engine->options, readahead_max) >>
		PAGE_SHIFT;
	uint64_t combine =
		(uint64_t)option_get(engine->options, io_combine_limit) >>
		PAGE_SHIFT;
	uint64_t share = atomic_load_explicit(&engine->readahead_share_pages,
	                                      memory_order_relaxed);

	return (struct stream_limits){
		.file_pages = (read->file->size + PAGE_BYTES - 1) >> PAGE_SHIFT,
		.window_max = (uint32_t)(window < share ? window : share),
		.combine_pages = combine > 0 ? (uint32_t)combine : 1,
	};
}

static struct stream_plan read_plan(struct read *read)
{
	struct file *file = read->file;
	bool had_to_wait =
		atomic_load_explicit(&read->missing, memory_order_relaxed) > 1;

	scoped_lock(&file->lock);
	struct stream_limits limits = read_limits_locked(read);

	return stream_advance(&file->streams, read_first(read),
	                      read_first(read) + read->page_count - 1,
	                      had_to_wait, &limits);
}

/* Claim what is absent of @count pages from @first on, with @fresh.  Returns
 * how many of @fresh were used. */
static size_t readahead_claim_locked(struct read *read, uint64_t first,
                                     size_t count, struct page **fresh)
{
	struct lane *lane = read->lane;
	struct cache *cache = &lane->engine->cache;
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		/* A cursor does not survive an insertion. */
		struct index_cursor cursor = {0};

		if (index_find(&read->file->index, cache, first + i, &cursor) !=
		    UINT32_MAX)
			continue;
		struct page *page = fresh[used];

		if (claim_locked(read->file, page, first + i) < 0)
			break;
		page->is_readahead = true;
		used++;
		fill_add(lane, page);
	}
	stat_add(&lane->stats, readahead_pages, used);
	return used;
}

/* I/Os that readahead may still start.  Demand has the rest to itself. */
static bool readahead_may_start(const struct engine *engine)
{
	unsigned in_flight = atomic_load_explicit(&engine->readahead_in_flight,
	                                          memory_order_relaxed);

	return in_flight <
	       option_get(engine->options, effective_io_concurrency);
}

/* Start reading what the stream calls for, as far as memory and I/Os allow.
 * Returns how many pages from plan->first on are taken care of. */
static uint32_t readahead_run(struct read *read, const struct stream_plan *plan)
{
	struct lane *lane = read->lane;
	struct engine *engine = lane->engine;
	struct page *fresh[READAHEAD_BATCH];
	uint32_t done = 0;

	fill_next_request(lane);
	while (done < plan->count) {
		uint32_t n = plan->count - done;

		if (n > READAHEAD_BATCH)
			n = READAHEAD_BATCH;
		/* Half of the claims are for readers. */
		if (!readahead_may_start(engine) ||
		    !fill_has_room(lane, FILL_CLAIMS_MAX / 2 + n) ||
		    !cache_take(&engine->cache, fresh, n, false))
			break;
		lock_acquire(&read->file->lock);
		size_t used = readahead_claim_locked(read, plan->first + done,
		                                     n, fresh);

		lock_release(&read->file->lock);
		pages_give_back(engine, fresh + used, n - used);
		done += n;
	}
	return done;
}

static void read_ahead(struct read *read)
{
	struct stream_plan plan = read_plan(read);

	if (plan.count == 0)
		return;
	uint32_t count = readahead_run(read, &plan);

	scoped_lock(&read->file->lock);
	stream_accept(&read->file->streams, &plan, count);
}

/* Bytes of the answer: what was asked for, up to the end of file both when the
 * pages were gathered and now. */
static ssize_t read_result_locked(const struct read *read)
{
	uint64_t size = read->file->size;

	assert(lock_is_held(&read->file->lock));
	if (size > read->size)
		size = read->size;
	if (read->offset >= size)
		return 0;
	uint64_t left = size - read->offset;

	return (ssize_t)(left < read->length ? left : read->length);
}

static void read_count(struct read *read)
{
	struct stats_block *stats = &read->lane->stats;

	stat_add(stats, reads, 1);
	stat_add(stats, cache_hits, read->hits);
	stat_add(stats, cache_joins, read->joins);
	stat_add(stats, cache_misses, read->misses);
	if (read->result > 0)
		stat_add(stats, read_bytes, (uint64_t)read->result);
	if (read->parked_ns == 0)
		return;
	stat_add(stats, io_waits, 1);
	stat_add(stats, io_wait_ns, clock_now_ns() - read->parked_ns);
}

/* All pages are there.  False: they belong to two states of the file, and the
 * read has to start over. */
static bool read_finish(struct read *read)
{
	struct file *file = read->file;
	int error = atomic_load_explicit(&read->error, memory_order_relaxed);

	lock_acquire(&file->lock);
	bool is_mixed = read->version != file->version;

	read->result = error ? error : read_result_locked(read);
	lock_release(&file->lock);
	if (is_mixed && read->restarts < READ_RESTARTS_MAX)
		return false;
	read_count(read);
	return true;
}

/* Gather, read ahead, and finish if nothing is missing. */
static enum read_state read_start(struct read *read)
{
	for (;;) {
		/* One for ourselves, so that a completion on another lane
		 * cannot finish the read while we gather. */
		atomic_store_explicit(&read->missing, 1, memory_order_relaxed);
		atomic_store_explicit(&read->error, 0, memory_order_relaxed);
		read_confirm_end(read);
		if (read_gather(read) && read->page_count > 0)
			read_ahead(read);
		/* Acquire what the lanes that told us did with our pages. */
		if (atomic_fetch_sub_explicit(&read->missing, 1,
		                              memory_order_acq_rel) > 1) {
			if (read->parked_ns == 0)
				read->parked_ns = clock_now_ns();
			return READ_PARKED;
		}
		if (read->is_starved) {
			read_rest(read);
			return READ_PARKED;
		}
		if (read_finish(read))
			return READ_DONE;
		read_unpin(read);
		read->restarts++;
	}
}

enum read_state file_read(struct lane *lane, struct file *file,
                          struct read *read)
{
	assert(lane_is_current(lane));
	assert(read->length <= READ_BYTES_MAX);
	read->lane = lane;
	read->file = file;
	read->result = 0;
	read->parked_ns = 0;
	read->restarts = 0;
	read->is_starved = false;
	read->page_count = 0;
	file_get(file);
	fill_next_request(lane);
	/* Nothing lies beyond the largest offset. */
	if (read->offset > INT64_MAX - READ_BYTES_MAX)
		return READ_DONE;
	return read_start(read);
}

void read_continue(struct read *read)
{
	if (read_start(read) == READ_DONE)
		read->done(read);
}

static void read_arrived(struct task *task)
{
	struct read *read = container_of(task, struct read, task);

	/* Memory may have come before there was anybody to be fed. */
	if (read->is_starved) {
		read->is_starved = false;
		read_continue(read);
		return;
	}
	if (read_finish(read)) {
		read->done(read);
		return;
	}
	read_unpin(read);
	read->restarts++;
	read_continue(read);
}

void read_page_done(struct page_waiter *waiter, int error)
{
	struct read *read = waiter->read;

	if (error)
		atomic_store_explicit(&read->error, error,
		                      memory_order_relaxed);
	/* Release the page and the error to the read's lane. */
	if (atomic_fetch_sub_explicit(&read->missing, 1, memory_order_acq_rel) >
	    1)
		return;
	read->task.run = read_arrived;
	lane_post(read->lane, &read->task);
}

size_t read_vectors(const struct read *read, struct iovec *ret_vectors)
{
	const struct cache *cache = &read->lane->engine->cache;
	size_t left = read->result > 0 ? (size_t)read->result : 0;
	size_t within = read->offset % PAGE_BYTES;
	size_t n = 0;

	for (uint32_t i = 0; left > 0; i++, within = 0) {
		assert(i < read->page_count);
		char *memory =
			(char *)cache_memory(cache, read->pages[i]) + within;
		size_t length = PAGE_BYTES - within;
		struct iovec *last = n > 0 ? &ret_vectors[n - 1] : NULL;

		if (length > left)
			length = left;
		left -= length;
		if (last && (char *)last->iov_base + last->iov_len == memory)
			last->iov_len += length;
		else
			ret_vectors[n++] = (struct iovec){memory, length};
	}
	return n;
}

void read_release(struct read *read)
{
	struct file *file = read->file;

	read_unpin(read);
	file_put(file);
}
