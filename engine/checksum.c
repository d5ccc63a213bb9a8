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

enum {
	SUM_GROUP_SHIFT = 6,
	SUM_GROUP_PAGES = 1 << SUM_GROUP_SHIFT,

	/* Places that a group may have: with eight, a table has to be nearly
	 * full before a group replaces another. */
	SUM_WAYS = 8,

	/* Groups looked up one by one: 256 MiB of a file. */
	FORGET_GROUPS_MAX = 1024,
};

struct sum_group {
	uint64_t file_id; /* 0: empty */
	uint64_t number;  /* page_index >> SUM_GROUP_SHIFT */
	uint64_t known;   /* a bit for each page */
	uint64_t current; /* likewise: learned in @epoch */
	uint64_t epoch;
	uint64_t used; /* when, in uses of its set */
	uint64_t values[SUM_GROUP_PAGES];
};

/* The places that a group may have. */
struct sum_set {
	uint64_t clock;
	struct sum_group groups[SUM_WAYS];
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

/* As many sets as fit, in multiples of SUM_LOCKS. */
static size_t sums_sets_of(size_t bytes)
{
	size_t count = bytes / sizeof(struct sum_set);

	return count - count % SUM_LOCKS;
}

/* NULL: none, or no memory. */
static struct sum_set *sums_map(size_t set_count)
{
	if (set_count == 0)
		return NULL;
	void *memory = mmap(NULL, set_count * sizeof(struct sum_set),
	                    PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void sums_unmap(struct sum_set *sets, size_t set_count)
{
	if (sets)
		munmap(sets, set_count * sizeof(struct sum_set));
}

int sums_open(struct sums *sums, size_t bytes)
{
	*sums = (struct sums){.set_count = sums_sets_of(bytes)};
	for (size_t i = 0; i < SUM_LOCKS; i++)
		lock_init(&sums->locks[i]);
	sums->sets = sums_map(sums->set_count);
	return sums->set_count > 0 && !sums->sets ? -ENOMEM : 0;
}

void sums_close(struct sums *sums)
{
	sums_unmap(sums->sets, sums->set_count);
	for (size_t i = 0; i < SUM_LOCKS; i++)
		lock_done(&sums->locks[i]);
}

/* Neighbouring groups of a file take the places in turn, so that a large file
 * fills them evenly. */
static uint64_t sums_hash(uint64_t file_id, uint64_t number)
{
	return mix(file_id) + number;
}

/* The lock of a group's place: the same however many places there are. */
static struct lock *sums_lock(struct sums *sums, uint64_t hash)
{
	return &sums->locks[hash % SUM_LOCKS];
}

/* The group's place, under its lock; NULL: nothing is kept. */
static struct sum_set *sums_place(const struct sums *sums, uint64_t hash)
{
	if (sums->set_count == 0)
		return NULL;
	return &sums->sets[hash % sums->set_count];
}

/* The group in its set, or NULL.  Under the lock of the place. */
static struct sum_group *set_find(struct sum_set *set, uint64_t file_id,
                                  uint64_t number)
{
	for (unsigned way = 0; way < SUM_WAYS; way++) {
		struct sum_group *group = &set->groups[way];

		if (group->file_id == file_id && group->number == number) {
			group->used = ++set->clock;
			return group;
		}
	}
	return NULL;
}

/* The group, in the place of the one unused for longest if it is new. */
static struct sum_group *set_make(struct sum_set *set, uint64_t file_id,
                                  uint64_t number)
{
	struct sum_group *group = set_find(set, file_id, number);

	if (group)
		return group;
	group = &set->groups[0];
	for (unsigned way = 1; way < SUM_WAYS; way++) {
		if (set->groups[way].used < group->used)
			group = &set->groups[way];
	}
	group->file_id = file_id;
	group->number = number;
	group->known = 0;
	group->current = 0;
	group->used = ++set->clock;
	return group;
}

static void sums_lock_all(struct sums *sums)
{
	for (size_t i = 0; i < SUM_LOCKS; i++)
		lock_acquire(&sums->locks[i]);
}

static void sums_unlock_all(struct sums *sums)
{
	for (size_t i = SUM_LOCKS; i-- > 0;)
		lock_release(&sums->locks[i]);
}

/* Copy what is known in @from into the table, under all locks. */
static void sums_inherit(struct sums *sums, const struct sum_set *from)
{
	for (unsigned way = 0; way < SUM_WAYS; way++) {
		const struct sum_group *old = &from->groups[way];

		if (old->known == 0)
			continue;
		struct sum_set *set =
			sums_place(sums, sums_hash(old->file_id, old->number));
		struct sum_group *group =
			set_make(set, old->file_id, old->number);

		group->known = old->known;
		group->current = old->current;
		group->epoch = old->epoch;
		memcpy(group->values, old->values, sizeof(group->values));
	}
}

void sums_resize(struct sums *sums, size_t bytes)
{
	struct sum_set *sets = sums_map(sums_sets_of(bytes));
	size_t set_count = sets ? sums_sets_of(bytes) : 0;

	sums_lock_all(sums);
	struct sum_set *old_sets = sums->sets;
	size_t old_count = sums->set_count;

	sums->sets = sets;
	sums->set_count = set_count;
	for (size_t i = 0; set_count > 0 && i < old_count; i++)
		sums_inherit(sums, &old_sets[i]);
	sums_unlock_all(sums);
	sums_unmap(old_sets, old_count);
}

static enum sum_verdict group_judge(const struct sum_group *group,
                                    uint64_t epoch, unsigned slot,
                                    uint64_t value)
{
	if (!group || !(group->known & 1ULL << slot))
		return SUM_UNKNOWN;
	if (group->epoch == epoch && group->current & 1ULL << slot)
		return group->values[slot] == value ? SUM_MATCHES : SUM_DIFFERS;
	return group->values[slot] == value ? SUM_MATCHES_OLD : SUM_DIFFERS_OLD;
}

/* Pages @first .. @first + @count lie in one group. */
static void sums_compare_group(struct sums *sums, uint64_t file_id,
                               uint64_t epoch, uint64_t first,
                               const uint64_t *values, size_t count,
                               enum sum_verdict *ret_verdicts)
{
	uint64_t number = first >> SUM_GROUP_SHIFT;
	uint64_t hash = sums_hash(file_id, number);

	scoped_lock(sums_lock(sums, hash));
	struct sum_set *set = sums_place(sums, hash);
	const struct sum_group *group = set ? set_find(set, file_id, number)
	                                    : NULL;

	for (size_t i = 0; i < count; i++)
		ret_verdicts[i] = group_judge(
			group, epoch, (first + i) % SUM_GROUP_PAGES, values[i]);
}

void sums_compare(struct sums *sums, uint64_t file_id, uint64_t epoch,
                  uint64_t first, const uint64_t *values, size_t count,
                  enum sum_verdict *ret_verdicts)
{
	assert(file_id != 0);
	while (count > 0) {
		size_t n = SUM_GROUP_PAGES - first % SUM_GROUP_PAGES;

		if (n > count)
			n = count;
		sums_compare_group(sums, file_id, epoch, first, values, n,
		                   ret_verdicts);
		first += n;
		values += n;
		ret_verdicts += n;
		count -= n;
	}
}

void sums_learn(struct sums *sums, uint64_t file_id, uint64_t epoch,
                uint64_t page_index, uint64_t value)
{
	assert(file_id != 0);
	uint64_t number = page_index >> SUM_GROUP_SHIFT;
	uint64_t hash = sums_hash(file_id, number);
	unsigned slot = page_index % SUM_GROUP_PAGES;

	scoped_lock(sums_lock(sums, hash));
	struct sum_set *set = sums_place(sums, hash);

	if (!set)
		return;
	struct sum_group *group = set_make(set, file_id, number);

	if (group->epoch != epoch)
		group->current = 0;
	group->epoch = epoch;
	group->values[slot] = value;
	group->known |= 1ULL << slot;
	group->current |= 1ULL << slot;
}

/* Forget the pages of one group that lie in @first .. @last. */
static void group_forget(struct sum_group *group, uint64_t first, uint64_t last)
{
	uint64_t base = group->number << SUM_GROUP_SHIFT;

	for (unsigned slot = 0; slot < SUM_GROUP_PAGES; slot++) {
		if (base + slot >= first && base + slot <= last)
			group->known &= ~(1ULL << slot);
	}
}

/* Forget them in all groups of the file in one set. */
static void set_forget(struct sum_set *set, uint64_t file_id, uint64_t first,
                       uint64_t last)
{
	for (unsigned way = 0; way < SUM_WAYS; way++) {
		if (set->groups[way].file_id == file_id)
			group_forget(&set->groups[way], first, last);
	}
}

/* Forget them in all sets of one lock. */
static void sums_forget_locked_sets(struct sums *sums, size_t lock,
                                    uint64_t file_id, uint64_t first,
                                    uint64_t last)
{
	scoped_lock(&sums->locks[lock]);
	for (size_t i = lock; i < sums->set_count; i += SUM_LOCKS)
		set_forget(&sums->sets[i], file_id, first, last);
}

static void sums_forget_number(struct sums *sums, uint64_t file_id,
                               uint64_t number, uint64_t first, uint64_t last)
{
	uint64_t hash = sums_hash(file_id, number);

	scoped_lock(sums_lock(sums, hash));
	struct sum_set *set = sums_place(sums, hash);

	if (set)
		set_forget(set, file_id, first, last);
}

void sums_forget(struct sums *sums, uint64_t file_id, uint64_t first,
                 uint64_t last)
{
	assert(first <= last);
	uint64_t from = first >> SUM_GROUP_SHIFT;
	uint64_t to = last >> SUM_GROUP_SHIFT;

	/* A long range costs less set by set than group by group. */
	if (to - from >= FORGET_GROUPS_MAX) {
		for (size_t lock = 0; lock < SUM_LOCKS; lock++)
			sums_forget_locked_sets(sums, lock, file_id, first,
			                        last);
		return;
	}
	for (uint64_t number = from; number <= to; number++)
		sums_forget_number(sums, file_id, number, first, last);
}
