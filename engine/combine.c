#include "engine/combine.h"

#include <assert.h>

int combine_compare(const struct combine_claim *a,
                    const struct combine_claim *b)
{
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->index != b->index)
		return a->index < b->index ? -1 : 1;
	return 0;
}

size_t combine_run(const struct combine_claim *claims, size_t count,
                   size_t stride, size_t limit_pages)
{
	assert(count > 0);
	assert(limit_pages > 0);
	const struct combine_claim *last = claims;
	size_t n = 1;

	if (claims->is_solo)
		return 1;
	while (n < count && n < limit_pages) {
		const struct combine_claim *next =
			(const void *)((const char *)last + stride);

		assert(combine_compare(last, next) <= 0);
		if (next->file != last->file || next->is_solo ||
		    next->index != last->index + 1)
			break;
		last = next;
		n++;
	}
	return n;
}
