/*
 * combine.h - decide which missing pages travel in one I/O
 *
 * The cache hands us the pages that readers lack, in file order.  One large
 * I/O costs the device little more than a small one, so neighbours are merged
 * until they would exceed the limit.  Cached pages are never read again to
 * bridge a gap: a reader may have them pinned.
 *
 * Pure functions: no I/O, no locks, no allocation.
 *
 *	while (count > 0) {
 *		size_t n = combine_run(claims, count, limit);
 *		...one I/O for claims[0..n)...
 *		claims += n;
 *		count -= n;
 *	}
 */
#ifndef ENGINE_COMBINE_H
#define ENGINE_COMBINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A page that somebody claimed: which, of which file. */
struct combine_claim {
	const void *file;
	uint64_t index;
	bool is_solo; /* failed in company before: travels alone */
};

/* Order for qsort(3): by file, then by index. */
int combine_compare(const struct combine_claim *a,
                    const struct combine_claim *b);

/*
 * How many of the leading @claims form one contiguous run of at most
 * @limit_pages in one file?  @claims is sorted and not empty, so the answer is
 * always in [1, limit_pages].  A page may be there twice, when a write took its
 * place from the first claim before its I/O began; the second ends the run.
 * @stride is the distance between claims in bytes: they may be the head of
 * something larger.
 */
size_t combine_run(const struct combine_claim *claims, size_t count,
                   size_t stride, size_t limit_pages);

#endif
