#include "engine/checksum.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/page.h"

#if defined(__x86_64__)
/* The plain symbol of the library is its SSE2 code, a third of the speed. */
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

enum { SUM_GROUP_SHIFT = 6, SUM_GROUP_PAGES = 1 << SUM_GROUP_SHIFT };

struct sum_group {
	uint64_t file_id; /* 0: empty */
	uint64_t number;  /* page_index >> SUM_GROUP_SHIFT */
	uint64_t known;   /* a bit for each page */
	uint64_t values[SUM_GROUP_PAGES];
};

/* MurmurHash3's finalizer (A. Appleby, public domain): spreads all bits. */
static uint64_t mix(uint64_t value)
{
	value ^= value >> 33;
	value *= 0xff51afd7ed558ccdULL;
	value ^= value >> 33;
	value *= 0xc4ceb9fe1a85ec53ULL;
	value ^= value >> 33;
	return value;
}

uint64_t checksum_page(const void *page, uint64_t file_id, uint64_t page_index)
{
	return XXH3_64bits(page, PAGE_BYTES) ^ mix(file_id + mix(page_index));
}

const char *checksum_variant(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f"))
		return "AVX-512";
	return __builtin_cpu_supports("avx2") ? "AVX2" : "SSE2";
#else
	return "portable";
#endif
}

int sums_open(struct sums *sums, size_t bytes)
{
	*sums = (struct sums){.group_count = bytes / sizeof(struct sum_group)};
	for (size_t i = 0; i < SUM_LOCKS; i++)
		lock_init(&sums->locks[i]);
	if (sums->group_count == 0)
		return 0;
	void *memory = mmap(NULL, sums->group_count * sizeof(struct sum_group),
	                    PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	sums->groups = memory;
	return 0;
}

void sums_close(struct sums *sums)
{
	if (sums->groups)
		munmap(sums->groups,
		       sums->group_count * sizeof(struct sum_group));
	for (size_t i = 0; i < SUM_LOCKS; i++)
		lock_done(&sums->locks[i]);
}

static size_t sums_place(const struct sums *sums, uint64_t file_id,
                         uint64_t number)
{
	return mix(file_id ^ mix(number)) % sums->group_count;
}

static bool group_is(const struct sum_group *group, uint64_t file_id,
                     uint64_t number)
{
	return group->file_id == file_id && group->number == number;
}

/* Pages @first .. @first + @count lie in one group. */
static void sums_compare_group(struct sums *sums, uint64_t file_id,
                               uint64_t first, const uint64_t *values,
                               size_t count, enum sum_verdict *ret_verdicts)
{
	uint64_t number = first >> SUM_GROUP_SHIFT;
	size_t place = sums_place(sums, file_id, number);
	const struct sum_group *group = &sums->groups[place];

	scoped_lock(&sums->locks[place % SUM_LOCKS]);
	bool is_ours = group_is(group, file_id, number);

	for (size_t i = 0; i < count; i++) {
		unsigned slot = (first + i) % SUM_GROUP_PAGES;

		if (!is_ours || !(group->known & 1ULL << slot))
			ret_verdicts[i] = SUM_UNKNOWN;
		else if (group->values[slot] == values[i])
			ret_verdicts[i] = SUM_MATCHES;
		else
			ret_verdicts[i] = SUM_DIFFERS;
	}
}

void sums_compare(struct sums *sums, uint64_t file_id, uint64_t first,
                  const uint64_t *values, size_t count,
                  enum sum_verdict *ret_verdicts)
{
	assert(file_id != 0);
	if (sums->group_count == 0) {
		for (size_t i = 0; i < count; i++)
			ret_verdicts[i] = SUM_UNKNOWN;
		return;
	}
	while (count > 0) {
		size_t n = SUM_GROUP_PAGES - first % SUM_GROUP_PAGES;

		if (n > count)
			n = count;
		sums_compare_group(sums, file_id, first, values, n,
		                   ret_verdicts);
		first += n;
		values += n;
		ret_verdicts += n;
		count -= n;
	}
}

void sums_learn(struct sums *sums, uint64_t file_id, uint64_t page_index,
                uint64_t value)
{
	assert(file_id != 0);
	if (sums->group_count == 0)
		return;
	uint64_t number = page_index >> SUM_GROUP_SHIFT;
	size_t place = sums_place(sums, file_id, number);
	struct sum_group *group = &sums->groups[place];
	unsigned slot = page_index % SUM_GROUP_PAGES;

	scoped_lock(&sums->locks[place % SUM_LOCKS]);
	if (!group_is(group, file_id, number)) {
		group->file_id = file_id;
		group->number = number;
		group->known = 0;
	}
	group->values[slot] = value;
	group->known |= 1ULL << slot;
}

/* Forget the pages of one group that lie in @first .. @last. */
static void sums_forget_group(struct sums *sums, size_t place, uint64_t file_id,
                              uint64_t first, uint64_t last)
{
	struct sum_group *group = &sums->groups[place];

	scoped_lock(&sums->locks[place % SUM_LOCKS]);
	if (group->file_id != file_id)
		return;
	uint64_t base = group->number << SUM_GROUP_SHIFT;

	for (unsigned slot = 0; slot < SUM_GROUP_PAGES; slot++) {
		if (base + slot >= first && base + slot <= last)
			group->known &= ~(1ULL << slot);
	}
}

void sums_forget(struct sums *sums, uint64_t file_id, uint64_t first,
                 uint64_t last)
{
	assert(first <= last);
	uint64_t from = first >> SUM_GROUP_SHIFT;
	uint64_t to = last >> SUM_GROUP_SHIFT;

	if (sums->group_count == 0)
		return;
	/* Whichever is shorter: the groups of the range, or all groups. */
	if (to - from >= sums->group_count) {
		for (size_t place = 0; place < sums->group_count; place++)
			sums_forget_group(sums, place, file_id, first, last);
		return;
	}
	for (uint64_t number = from; number <= to; number++)
		sums_forget_group(sums, sums_place(sums, file_id, number),
		                  file_id, first, last);
}
