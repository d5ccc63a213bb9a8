/*
 * fill.h - claimed pages become I/Os, I/Os become verified pages
 *
 * During a round of its loop a lane collects the pages that its requests and
 * its readahead claimed; at the end of the round neighbours are combined and
 * all I/Os start together.  So requests of different readers share an I/O.
 *
 * On completion the pages are verified in our own memory and published; on an
 * error the wanted ones are read again page by page, so that one bad sector
 * costs one page, and once more each before the error is believed.
 */
#ifndef ENGINE_FILL_H
#define ENGINE_FILL_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/combine.h"

struct lane;
struct page;

enum {
	/* Claims a lane may have collected or waiting for an I/O: 64 MiB of
	 * pages; beyond that reads wait as if memory were short. */
	FILL_CLAIMS_MAX = 16384,
};

struct fill_claim {
	struct combine_claim combine; /* first: combine_run() sees only this */
	struct page *page;
	unsigned request; /* which read of the round claimed it; 0 readahead */
};

struct fill {
	struct fill_claim *claims;
	size_t capacity;
	size_t count;
	unsigned request; /* of the round, counts up */
};

/* For a lane with @io_count I/Os.  -ENOMEM. */
int fill_open(struct fill *fill, size_t io_count);
void fill_close(struct fill *fill);

/* Is there room for @count more claims? */
bool fill_has_room(const struct lane *lane, size_t count);

/* Free pages for @count claims, and room for those: all or none.  False: the
 * lane is fed (read_feed()) when it is worth another try. */
bool fill_take(struct lane *lane, struct page **ret_pages, size_t count);

/* The lane has claimed @page (READING, with a reference for the I/O). */
void fill_add(struct lane *lane, struct page *page);

/* The following claims belong to another request. */
void fill_next_request(struct lane *lane);

/* Start I/Os for what was claimed; what finds no free I/O stays. */
void fill_flush(struct lane *lane);

#endif
