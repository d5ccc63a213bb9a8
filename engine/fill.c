#include "engine/fill.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "engine/backing.h"
#include "engine/clock.h"
#include "engine/core.h"
#include "engine/log.h"

enum {
	/* A wanted page is read once more by itself before its error is
	 * believed. */
	READ_ATTEMPTS_MAX = 2,

	/* A page that does not match its sum is read twice more: bad RAM or a
	 * bad transfer must not look like a bad disk. */
	SUM_ATTEMPTS_MAX = 3,
};

int fill_open(struct fill *fill, size_t io_count)
{
	/* Pages to be read again come on top: they are in I/Os until then. */
	size_t capacity = FILL_CLAIMS_MAX + io_count * IO_PAGES_MAX;

	*fill = (struct fill){.request = 1, .capacity = capacity};
	fill->claims = calloc(capacity, sizeof(*fill->claims));
	return fill->claims ? 0 : -ENOMEM;
}

void fill_close(struct fill *fill)
{
	assert(fill->count == 0);
	free(fill->claims);
}

bool fill_has_room(const struct lane *lane, size_t count)
{
	return lane->fill.count + count <= FILL_CLAIMS_MAX;
}

bool fill_take(struct lane *lane, struct page **ret_pages, size_t count)
{
	struct cache *cache = &lane->engine->cache;

	if (fill_has_room(lane, count))
		return cache_take(cache, ret_pages, count, true);
	/* The I/Os before us make room, and unpin their pages when they do. */
	atomic_store(&cache->is_hungry, true);
	return false;
}

void fill_next_request(struct lane *lane)
{
	lane->fill.request++;
}

void fill_add(struct lane *lane, struct page *page)
{
	struct fill *fill = &lane->fill;

	assert(lane_is_current(lane));
	assert(fill->count < fill->capacity);
	assert(page->state == PAGE_READING);
	fill->claims[fill->count++] = (struct fill_claim){
		.combine = {page->file, page->index, page->is_solo},
		.page = page,
		.request = fill->request,
	};
}

static int claim_compare(const void *a, const void *b)
{
	const struct fill_claim *first = a;
	const struct fill_claim *second = b;

	return combine_compare(&first->combine, &second->combine);
}

static bool run_is_wanted(const struct fill_claim *claims, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (atomic_load_explicit(&claims[i].page->is_wanted,
		                         memory_order_relaxed))
			return true;
	}
	return false;
}

/* Does the run carry what more than one request, or a request and readahead,
 * asked for? */
static bool run_is_shared(const struct fill_claim *claims, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (claims[i].request != claims[0].request)
			return true;
	}
	return false;
}

static void fill_done(struct io *io);

/* One I/O for claims[0..count).  False: none is free. */
static bool fill_start(struct lane *lane, const struct fill_claim *claims,
                       size_t count, enum io_class class)
{
	struct io *io = io_take(lane);

	if (!io)
		return false;
	assert(count <= IO_PAGES_MAX);
	io->file = claims[0].page->file;
	file_get(io->file);
	io->offset = claims[0].page->index << PAGE_SHIFT;
	io->class = class;
	io->done = fill_done;
	io->page_count = count;
	for (size_t i = 0; i < count; i++)
		io->pages[i] = claims[i].page;
	if (run_is_shared(claims, count))
		stat_add(&lane->stats, io_combined, 1);
	if (class == IO_READAHEAD)
		atomic_fetch_add_explicit(&lane->engine->readahead_in_flight, 1,
		                          memory_order_relaxed);
	io_submit(io);
	return true;
}

/* Start what is wanted, or else everything; what starts is marked by a NULL
 * page.  A page may become wanted at any time, on another lane: so the second
 * turn leaves nothing out.  False: no I/O is free. */
static bool fill_start_runs(struct lane *lane, bool is_for_wanted,
                            size_t limit_pages)
{
	struct fill *fill = &lane->fill;

	for (size_t i = 0; i < fill->count;) {
		struct fill_claim *run = &fill->claims[i];

		if (!run->page) {
			i++;
			continue;
		}
		size_t n = combine_run(&run->combine, fill->count - i,
		                       sizeof(*run), limit_pages);
		bool is_wanted = run_is_wanted(run, n);

		i += n;
		if (is_for_wanted && !is_wanted)
			continue;
		if (!fill_start(lane, run, n,
		                is_wanted ? IO_DEMAND : IO_READAHEAD))
			return false;
		for (size_t k = 0; k < n; k++)
			run[k].page = NULL;
	}
	return true;
}

static void fill_compact(struct fill *fill)
{
	size_t kept = 0;

	for (size_t i = 0; i < fill->count; i++) {
		if (fill->claims[i].page)
			fill->claims[kept++] = fill->claims[i];
	}
	fill->count = kept;
}

void fill_flush(struct lane *lane)
{
	struct fill *fill = &lane->fill;
	struct options *options = lane->engine->options;
	size_t limit_pages = (size_t)option_get(options, io_combine_limit) >>
	                     PAGE_SHIFT;

	if (fill->count == 0)
		return;
	if (limit_pages > IO_PAGES_MAX)
		limit_pages = IO_PAGES_MAX;
	qsort(fill->claims, fill->count, sizeof(*fill->claims), claim_compare);
	if (!fill_start_runs(lane, true, limit_pages) ||
	    !fill_start_runs(lane, false, limit_pages))
		stat_add(&lane->stats, io_queue_full, 1);
	fill_compact(fill);
	/* What is left is started when an I/O completes. */
	assert(fill->count == 0 || lane->ios.in_flight > 0);
	fill->request = 1;
}

/* What an I/O brought, page by page. */
struct fill_result {
	int errors[IO_PAGES_MAX]; /* 0, or why the page is not to be had */
	bool is_retry[IO_PAGES_MAX];
	uint64_t sums[IO_PAGES_MAX];
	enum sum_verdict verdicts[IO_PAGES_MAX];
	size_t good; /* leading pages that arrived */
};

/* The pages that arrived; zeros after the end of the file. */
static size_t fill_arrived(struct io *io)
{
	size_t end = io->page_count << PAGE_SHIFT;

	if (io->error)
		return io->progress >> PAGE_SHIFT;
	for (size_t at = io->progress; at < end;) {
		size_t i = at >> PAGE_SHIFT;
		size_t within = at % PAGE_BYTES;
		char *memory =
			cache_memory(&io->lane->engine->cache, io->pages[i]);

		memset(memory + within, 0, PAGE_BYTES - within);
		at = (i + 1) << PAGE_SHIFT;
	}
	return io->page_count;
}

/* Sum what arrived and compare it with what is known, in our own memory. */
static void fill_verify(struct io *io, struct fill_result *result,
                        uint64_t sum_id)
{
	struct engine *engine = io->lane->engine;
	uint64_t first = io->pages[0]->index;

	for (size_t i = 0; i < result->good; i++) {
		void *memory = cache_memory(&engine->cache, io->pages[i]);

		result->sums[i] = checksum_page(memory, sum_id, first + i);
	}
	sums_compare(&engine->sums, sum_id, io->change_count, first,
	             result->sums, result->good, result->verdicts);
}

static void fill_learn_page(struct io *io, struct page *page, uint64_t sum,
                            enum sum_verdict verdict)
{
	struct lane *lane = io->lane;
	struct stats_block *stats = &lane->stats;

	switch (verdict) {
	case SUM_DIFFERS:
		return; /* reported, and never learned by itself */
	case SUM_MATCHES:
		stat_add(stats, checksum_verified, 1);
		stat_add(stats, checksum_transient, page->is_suspect);
		return;
	case SUM_MATCHES_OLD:
		stat_add(stats, checksum_verified, 1);
		break;
	case SUM_DIFFERS_OLD:
		stat_add(stats, checksum_outdated, 1);
		break;
	case SUM_UNKNOWN:
		stat_add(stats, checksum_learned, 1);
		break;
	}
	sums_learn(&lane->engine->sums, io->file->sum_id, io->change_count,
	           page->index, sum);
}

/* The file's bytes were read while it had this identity and nothing changed
 * it: believe and learn the sums.  Under the lock. */
static void fill_learn_locked(struct io *io, struct fill_result *result)
{
	assert(lock_is_held(&io->file->lock));
	for (size_t i = 0; i < result->good; i++) {
		/* Detached: it raced with a change. */
		if (io->pages[i]->is_indexed && !result->errors[i])
			fill_learn_page(io, io->pages[i], result->sums[i],
			                result->verdicts[i]);
	}
}

/* A page that does not match: read it again, or give up. */
static void fill_mistrust_locked(struct io *io, struct fill_result *result,
                                 size_t i)
{
	struct lane *lane = io->lane;
	struct page *page = io->pages[i];

	if (!page->is_indexed)
		return; /* raced with a change: no sum holds for it */
	page->is_suspect = true;
	if (++page->attempts < SUM_ATTEMPTS_MAX) {
		result->is_retry[i] = true;
		return;
	}
	stat_add(&lane->stats, checksum_mismatches, 1);
	log_message(LOG_ERR,
	            "inode %llu, page %llu: does not match its checksum in "
	            "%d reads; the data on SOURCE is damaged",
	            (unsigned long long)io->file->key.inode,
	            (unsigned long long)page->index, SUM_ATTEMPTS_MAX);
	if (option_get(lane->engine->options, on_corruption) ==
	    ON_CORRUPTION_EIO)
		result->errors[i] = -EBADMSG;
}

/* A page that could not be read: alone, once more, if somebody waits for it. */
static void fill_complain_locked(struct io *io, struct fill_result *result,
                                 size_t i)
{
	struct page *page = io->pages[i];
	bool is_wanted =
		atomic_load_explicit(&page->is_wanted, memory_order_relaxed);

	if (is_wanted &&
	    (!page->is_solo || ++page->attempts < READ_ATTEMPTS_MAX)) {
		result->is_retry[i] = true;
		return;
	}
	result->errors[i] = io->error;
	stat_add(&io->lane->stats, io_errors, 1);
}

/*
 * A read that ended before the file does brought no zeros, it failed: a
 * filesystem may be wrong about its end for a while.  Pages that raced with a
 * change are not the file's any more, and during one the end is not known.
 */
static void fill_doubt_end_locked(struct io *io, struct fill_result *result)
{
	const struct file *file = io->file;
	size_t first = io->progress >> PAGE_SHIFT;
	bool is_indexed = false;

	assert(lock_is_held(&file->lock));
	if (io->error || file->changes ||
	    io->offset + io->progress >= file->size)
		return;
	for (size_t i = first; i < io->page_count; i++)
		is_indexed = is_indexed || io->pages[i]->is_indexed;
	if (!is_indexed)
		return;
	io->error = -EIO;
	result->good = first;
}

/* Decide about each page: publish, retry, or fail.  Under the lock. */
static void fill_judge_locked(struct io *io, struct fill_result *result,
                              bool has_sums)
{
	fill_doubt_end_locked(io, result);
	for (size_t i = 0; i < io->page_count; i++) {
		if (i >= result->good)
			fill_complain_locked(io, result, i);
		else if (has_sums && result->verdicts[i] == SUM_DIFFERS)
			fill_mistrust_locked(io, result, i);
	}
	if (has_sums)
		fill_learn_locked(io, result);
}

/* Publish or fail the pages; whoever waits is moved to *@ret_waiters.  A page
 * to be read again stays as it is. */
static void fill_settle_locked(struct io *io, struct fill_result *result,
                               struct page_waiter **waiters)
{
	struct file *file = io->file;
	struct page *valid[IO_PAGES_MAX];
	size_t n = 0;

	for (size_t i = 0; i < io->page_count; i++) {
		struct page *page = io->pages[i];

		waiters[i] = NULL;
		if (result->is_retry[i])
			continue;
		page->state = result->errors[i] ? PAGE_FAILED : PAGE_VALID;
		waiters[i] = page->waiters;
		page->waiters = NULL;
		if (!page->is_indexed) {
			stat_add(&io->lane->stats, fills_discarded, 1);
		} else if (result->errors[i]) {
			file_unindex_locked(file, page);
			/* The I/O's own reference is still there. */
			(void)cache_unpin(&file->engine->cache, page);
		} else {
			valid[n++] = page;
		}
	}
	cache_publish(&file->engine->cache, valid, n, file->sum_id);
}

static void fill_wake(struct page_waiter *waiter, int error)
{
	while (waiter) {
		/* Once told, the read may be gone, and its waiters with it. */
		struct page_waiter *next = waiter->next;

		read_page_done(waiter, error);
		waiter = next;
	}
}

/* Everybody is told, pages to be read again are claimed again, and the I/O's
 * references are dropped.  Returns how many are claimed again. */
static size_t fill_release(struct io *io, struct fill_result *result,
                           struct page_waiter **waiters)
{
	struct lane *lane = io->lane;
	size_t retries = 0;

	for (size_t i = 0; i < io->page_count; i++) {
		struct page *page = io->pages[i];

		if (result->is_retry[i]) {
			page->is_solo = true;
			fill_add(lane, page);
			retries++;
			continue;
		}
		fill_wake(waiters[i], result->errors[i]);
		engine_unpin(lane->engine, page);
	}
	stat_add(&lane->stats, io_retries, retries);
	return retries;
}

static void fill_done(struct io *io)
{
	struct lane *lane = io->lane;
	struct file *file = io->file;
	struct fill_result result = {.good = fill_arrived(io)};
	struct page_waiter *waiters[IO_PAGES_MAX];
	struct identity identity;
	size_t page_count = io->page_count;
	bool has_identity = identity_read(file->fd, &identity) == 0;
	bool keeps_sums = option_get(lane->engine->options, checksums);
	uint64_t sum_id =
		atomic_load_explicit(&file->sum_id, memory_order_relaxed);

	if (io->class == IO_READAHEAD)
		atomic_fetch_sub_explicit(&lane->engine->readahead_in_flight, 1,
		                          memory_order_relaxed);
	if (keeps_sums)
		fill_verify(io, &result, sum_id);

	if (has_identity)
		(void)file_meets(file, &identity);

	lock_acquire(&file->lock);
	/* Sums hold only if the pages were read and summed under the present
	 * name, and no change of ours came between. */
	fill_judge_locked(io, &result,
	                  keeps_sums && file->sum_id == sum_id &&
	                          file->change_count == io->change_count &&
	                          file_has_sums_locked(file));
	fill_settle_locked(io, &result, waiters);
	lock_release(&file->lock);

	page_count -= fill_release(io, &result, waiters);
	/* Its pages hold the file no more, but the I/O does. */
	file_release_fd(file, lane, (unsigned)page_count);
	io_give(io);
	file_put(file);
}
