/*
 * stream.h - how far ahead of a reader to read
 *
 * A file remembers a few streams, recognised from page offsets alone: not from
 * handles or processes, because several readers share a handle and the kernel
 * reorders what it sends.  A read that continues a stream moves it on and may
 * call for pages ahead; any other read starts a stream in the place of the one
 * unused for longest, and reads nothing ahead until it is continued (or starts
 * the file).  So a random reader costs nothing.
 *
 * The window doubles with every batch until it covers the device's latency,
 * and beyond that only when a reader had to wait (PostgreSQL 19,
 * read_stream.c: look-ahead grows on waits).
 *
 * Pure functions: no I/O, no locks, no allocation.
 *
 *	struct stream_plan plan = stream_advance(&set, first, last, had_to_wait,
 *						 &limits);
 *	n = ...start reading plan.first .. plan.first + plan.count...
 *	stream_accept(&set, &plan, n);
 */
#ifndef ENGINE_STREAM_H
#define ENGINE_STREAM_H

#include <stdbool.h>
#include <stdint.h>

enum { STREAM_MAX = 8 };

struct stream {
	uint64_t next;      /* the page that would continue it */
	uint64_t ahead;     /* pages before this one were called for */
	uint32_t window;    /* pages to be ahead; 0: not proven yet */
	uint32_t last_used; /* in reads of the file; 0: an empty place */
};

struct stream_set {
	struct stream streams[STREAM_MAX];
	uint32_t clock;
};

struct stream_limits {
	uint64_t file_pages;    /* nothing to read from here on */
	uint32_t window_max;    /* pages, for all streams of the file together;
	                         * 0: no readahead */
	uint32_t combine_pages; /* pages of the largest I/O */
};

struct stream_plan {
	uint64_t first;
	uint32_t count; /* 0: nothing to do */
	uint32_t stream;
};

/* Pages @first to @last are read now; @had_to_wait: not all were there. */
struct stream_plan stream_advance(struct stream_set *set, uint64_t first,
                                  uint64_t last, bool had_to_wait,
                                  const struct stream_limits *limits);

/* The first @count pages of the plan are on their way. */
void stream_accept(struct stream_set *set, const struct stream_plan *plan,
                   uint32_t count);

#endif
