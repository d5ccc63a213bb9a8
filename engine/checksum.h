/*
 * checksum.h - the sum of a page, and what is known of sums
 *
 * The sum is XXH3-64 of the page's 4096 bytes (zeros after the end of the
 * file), mixed with the file and the page's place in it, so that the right
 * bytes in the wrong place are found too.
 *
 * Known sums are kept in memory, in groups of 64 neighbouring pages, within a
 * fixed budget.  A group may lie in a few places; one that finds them taken
 * replaces the group unused for longest, whose pages become unknown.  A file is
 * named by a number that changes with its identity, so sums of an older state
 * are never compared with a newer one.
 */
#ifndef ENGINE_CHECKSUM_H
#define ENGINE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#include "engine/lock.h"

/* @page: 4096 bytes. */
uint64_t checksum_page(const void *page, uint64_t file_id, uint64_t page_index);

/* The code that the processor was found able to run: "AVX2", ... */
const char *checksum_variant(void);

struct sum_set;

enum { SUM_LOCKS = 16 };

struct sums {
	/* Protected by all locks together; readable under any. */
	struct sum_set *sets;
	size_t set_count; /* a multiple of SUM_LOCKS */

	/* Each protects the sets whose number ends like its own, however many
	 * sets there are. */
	struct lock locks[SUM_LOCKS];
};

/* @bytes: the budget; too little keeps nothing.  -ENOMEM. */
int sums_open(struct sums *sums, size_t bytes);

/* Another budget.  What is known stays known as far as there is room; without
 * memory for the new table nothing is.  Waits for every other call. */
void sums_resize(struct sums *sums, size_t bytes);

void sums_close(struct sums *sums);

/*
 * What is known of a page against what it is.  A sum from before the last
 * change of ours is OLD: a stranger's change that ran beside ours could not be
 * told from it, so a difference proves nothing.
 */
enum sum_verdict {
	SUM_UNKNOWN,
	SUM_MATCHES,
	SUM_DIFFERS,
	SUM_MATCHES_OLD,
	SUM_DIFFERS_OLD,
};

/* What is known of @count pages from @first on says this of @values.  @epoch
 * counts our own changes of the file. */
void sums_compare(struct sums *sums, uint64_t file_id, uint64_t epoch,
                  uint64_t first, const uint64_t *values, size_t count,
                  enum sum_verdict *ret_verdicts);

/* From now on @value is known of the page. */
void sums_learn(struct sums *sums, uint64_t file_id, uint64_t epoch,
                uint64_t page_index, uint64_t value);

/* Nothing is known any more of pages @first to @last; @last may be
 * UINT64_MAX. */
void sums_forget(struct sums *sums, uint64_t file_id, uint64_t first,
                 uint64_t last);

#endif
