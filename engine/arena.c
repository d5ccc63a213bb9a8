#include "engine/arena.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
	/* Below, a system call costs more than the faults that it saves. */
	POPULATE_PAGES_MIN = 8,
};

/* Address space that costs nothing until it is touched. */
static void *arena_map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void arena_unmap(void *memory, size_t size)
{
	if (memory)
		munmap(memory, size);
}

int arena_open(struct arena *arena, size_t page_max)
{
	assert(page_max > 0 && page_max < UINT32_MAX);
	*arena = (struct arena){.page_max = page_max};
	arena->memory = arena_map(page_max << PAGE_SHIFT);
	arena->pages = arena_map(page_max * sizeof(struct page));
	arena->warm.numbers = arena_map(page_max * sizeof(uint32_t));
	arena->cold.numbers = arena_map(page_max * sizeof(uint32_t));
	if (!arena->memory || !arena->pages || !arena->warm.numbers ||
	    !arena->cold.numbers) {
		arena_close(arena);
		return -ENOMEM;
	}
	/* File contents do not belong into a core dump. */
	(void)madvise(arena->memory, page_max << PAGE_SHIFT, MADV_DONTDUMP);
	return 0;
}

void arena_close(struct arena *arena)
{
	arena_unmap(arena->memory, arena->page_max << PAGE_SHIFT);
	arena_unmap(arena->pages, arena->page_max * sizeof(struct page));
	arena_unmap(arena->warm.numbers, arena->page_max * sizeof(uint32_t));
	arena_unmap(arena->cold.numbers, arena->page_max * sizeof(uint32_t));
}

static void queue_put(const struct arena *arena, struct arena_queue *queue,
                      uint32_t number)
{
	assert(queue->count < arena->page_max);
	size_t tail = queue->head + queue->count;

	if (tail >= arena->page_max)
		tail -= arena->page_max;
	queue->numbers[tail] = number;
	queue->count++;
}

static uint32_t queue_get(const struct arena *arena, struct arena_queue *queue)
{
	assert(queue->count > 0);
	uint32_t number = queue->numbers[queue->head];

	if (++queue->head == arena->page_max)
		queue->head = 0;
	queue->count--;
	return number;
}

struct page *arena_take(struct arena *arena)
{
	uint32_t number;

	if (arena->warm.count > 0)
		number = queue_get(arena, &arena->warm);
	else if (arena->cold.count > 0)
		number = queue_get(arena, &arena->cold);
	else
		number = (uint32_t)arena->fresh++;
	assert(number < arena->page_max);
	struct page *page = &arena->pages[number];

	assert(page->state == PAGE_FREE);
	return page;
}

void arena_give(struct arena *arena, struct page *page)
{
	assert(page->state == PAGE_FREE);
	queue_put(arena, &arena->warm, arena_number(arena, page));
}

void arena_populate(const struct arena *arena, const struct page *first,
                    size_t count)
{
	if (count < POPULATE_PAGES_MIN)
		return;
	/* Kernels before 5.14 say EINVAL: then the I/O faults page by page. */
	(void)madvise(arena_memory(arena, arena_number(arena, first)),
	              count << PAGE_SHIFT, MADV_POPULATE_WRITE);
}

void arena_release(struct arena *arena, size_t count)
{
	while (count-- > 0 && arena->warm.count > 0) {
		uint32_t number = queue_get(arena, &arena->warm);

		(void)madvise(arena_memory(arena, number), PAGE_BYTES,
		              MADV_DONTNEED);
		queue_put(arena, &arena->cold, number);
	}
}
