#include "engine/stream.h"

#include <assert.h>
#include <stddef.h>

enum {
	/* Requests of one reader arrive this far out of order, 2 MiB: the
	 * kernel's readahead has two requests of 1 MiB on their way, and each
	 * lane takes one. */
	REORDER_PAGES = 512,

	/* The first window, 256 KiB: enough for a small file, little enough to
	 * waste. */
	WINDOW_FIRST = 64,

	/* 4 MiB: direct I/O is far below the device's speed with less. */
	WINDOW_FREE = 1024,

	/* Times per batch up to there: files of a few MiB are read to their end
	 * before doubling would have got anywhere. */
	WINDOW_RAMP = 4,
};

static bool stream_continues(const struct stream *stream, uint64_t first)
{
	uint64_t low =
		stream->next > REORDER_PAGES ? stream->next - REORDER_PAGES : 0;
	uint64_t high = stream->next;

	if (stream->last_used == 0)
		return false;
	/* Out of order or skipping within what is on its way. */
	if (stream->window > 0 && stream->ahead > high)
		high = stream->ahead;
	if (stream->window == 0)
		low = stream->next > 0 ? stream->next - 1 : 0;
	return first >= low && first <= high;
}

static struct stream *stream_find(struct stream_set *set, uint64_t first)
{
	struct stream *best = NULL;

	for (unsigned i = 0; i < STREAM_MAX; i++) {
		struct stream *stream = &set->streams[i];

		if (!stream_continues(stream, first))
			continue;
		/* The one it fits closest: readers follow each other. */
		if (!best || stream->next > best->next)
			best = stream;
	}
	return best;
}

static struct stream *stream_replace(struct stream_set *set)
{
	struct stream *oldest = &set->streams[0];

	for (unsigned i = 1; i < STREAM_MAX; i++) {
		if (set->streams[i].last_used < oldest->last_used)
			oldest = &set->streams[i];
	}
	*oldest = (struct stream){0};
	return oldest;
}

/* Streams that read ahead share what the file may have ahead. */
static uint32_t stream_share(const struct stream_set *set, uint32_t window_max)
{
	uint32_t active = 0;

	for (unsigned i = 0; i < STREAM_MAX; i++)
		active += set->streams[i].window > 0;
	return active > 1 ? window_max / active : window_max;
}

static void stream_grow(struct stream *stream, bool had_to_wait,
                        uint32_t window_max)
{
	uint32_t window = stream->window;

	if (window == 0)
		window = WINDOW_FIRST;
	else if (window < WINDOW_FREE)
		window *= WINDOW_RAMP;
	else if (had_to_wait)
		window *= 2;
	stream->window = window < window_max ? window : window_max;
}

/* The next pages to call for, if there is room for a worthwhile batch. */
static struct stream_plan stream_propose(struct stream_set *set,
                                         struct stream *stream,
                                         bool had_to_wait,
                                         const struct stream_limits *limits)
{
	struct stream_plan plan = {.stream = (uint32_t)(stream - set->streams)};
	uint32_t window_max = stream_share(set, limits->window_max);
	/* One largest I/O at a time: neither a trickle nor a gap. */
	uint32_t batch = limits->combine_pages;

	if (stream->ahead < stream->next)
		stream->ahead = stream->next;
	if (batch > stream->window / 2)
		batch = stream->window / 2;
	uint64_t ahead = stream->ahead - stream->next;

	if (ahead + batch > stream->window)
		return plan;
	stream_grow(stream, had_to_wait, window_max);

	uint64_t end = stream->next + stream->window;

	if (end > limits->file_pages)
		end = limits->file_pages;
	if (end <= stream->ahead)
		return plan;
	plan.first = stream->ahead;
	plan.count = (uint32_t)(end - stream->ahead);
	return plan;
}

struct stream_plan stream_advance(struct stream_set *set, uint64_t first,
                                  uint64_t last, bool had_to_wait,
                                  const struct stream_limits *limits)
{
	assert(first <= last);
	assert(limits->combine_pages > 0);
	struct stream_plan nothing = {0};
	struct stream *stream = stream_find(set, first);
	bool is_proven = stream || first == 0;

	if (!stream)
		stream = stream_replace(set);
	if (++set->clock == 0)
		set->clock = 1; /* after 2^32 reads the order is lost, once */
	stream->last_used = set->clock;
	if (last + 1 > stream->next)
		stream->next = last + 1;
	if (!is_proven || limits->window_max == 0)
		return nothing;
	return stream_propose(set, stream, had_to_wait, limits);
}

void stream_accept(struct stream_set *set, const struct stream_plan *plan,
                   uint32_t count)
{
	assert(plan->stream < STREAM_MAX);
	assert(count <= plan->count);
	if (count > 0)
		set->streams[plan->stream].ahead = plan->first + count;
}
