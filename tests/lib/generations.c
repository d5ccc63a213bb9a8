/*
 * generations - no reader sees less than what was acknowledged before it asked
 *
 *	generations FILE SOURCE_FILE PAGES WRITES READERS
 *
 * Every page of FILE is filled with one number, its generation.  A writer
 * raises pages, here and there, and publishes a generation once its write has
 * returned.  Each reader takes the published generation of a page first and
 * reads the page afterwards: what it finds may be newer, but never older.  A
 * page that a read brings into a cache while a write passes by, and that stays
 * there, is found by this.  The writer looks at SOURCE_FILE, too, where its
 * bytes must have arrived.
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	PAGE_BYTES = 4096,
	PAGE_WORDS = PAGE_BYTES / sizeof(uint64_t),
	RUN_PAGES_MAX = 16,
	READERS_MAX = 64,
	/* A write this often is read back through SOURCE. */
	SOURCE_CHECK_EVERY = 16,
};

struct scene {
	/* Set before the threads start. */
	const char *path;
	const char *source_path;
	uint64_t page_count;
	uint64_t writes;

	/* Released when a write has returned, acquired before a read. */
	_Atomic(uint64_t) *published;
	/* Set when the writer is through. */
	atomic_bool is_over;
};

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static int open_or_die(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

/* Every word of the page at @data is at least @least. */
static void check_page(const uint64_t *data, uint64_t page, uint64_t least,
                       const char *path)
{
	for (unsigned i = 0; i < PAGE_WORDS; i++)
		if (data[i] < least)
			errx(1,
			     "%s: page %" PRIu64 " word %u: generation %" PRIu64
			     ", but %" PRIu64 " was acknowledged",
			     path, page, i, data[i], least);
}

static void read_exactly(int fd, void *data, size_t length, uint64_t offset,
                         const char *path)
{
	ssize_t got = pread(fd, data, length, offset);

	if (got < 0)
		err(1, "read %s at %" PRIu64, path, offset);
	if ((size_t)got != length)
		errx(1, "%s: %zd bytes instead of %zu at %" PRIu64, path, got,
		     length, offset);
}

static void *reader_run(void *argument)
{
	static atomic_uint seeds;
	struct scene *scene = argument;
	uint64_t state = atomic_fetch_add(&seeds, 1) * 7919 + 1;
	static _Thread_local uint64_t data[RUN_PAGES_MAX * PAGE_WORDS];
	int fd = open_or_die(scene->path, O_RDONLY);

	while (!atomic_load(&scene->is_over)) {
		uint64_t least[RUN_PAGES_MAX];
		uint64_t count = 1 + next_random(&state) % RUN_PAGES_MAX;
		uint64_t page =
			next_random(&state) % (scene->page_count - count + 1);

		for (uint64_t i = 0; i < count; i++)
			least[i] = atomic_load(&scene->published[page + i]);
		read_exactly(fd, data, count * PAGE_BYTES, page * PAGE_BYTES,
		             scene->path);
		for (uint64_t i = 0; i < count; i++)
			check_page(data + i * PAGE_WORDS, page + i, least[i],
			           scene->path);
	}
	close(fd);
	return NULL;
}

static void write_generation(struct scene *scene, int fd, uint64_t page,
                             uint64_t count, uint64_t generation)
{
	static uint64_t data[RUN_PAGES_MAX * PAGE_WORDS];
	ssize_t length = count * PAGE_BYTES;

	for (uint64_t i = 0; i < count * PAGE_WORDS; i++)
		data[i] = generation;
	if (pwrite(fd, data, length, page * PAGE_BYTES) != length)
		err(1, "write %s", scene->path);
	for (uint64_t i = 0; i < count; i++)
		atomic_store(&scene->published[page + i], generation);
}

static void writer_run(struct scene *scene)
{
	uint64_t state = 1;
	static uint64_t data[PAGE_WORDS];
	int fd = open_or_die(scene->path, O_WRONLY);
	int source = open_or_die(scene->source_path, O_RDONLY);

	for (uint64_t i = 1; i <= scene->writes; i++) {
		uint64_t count = 1 + next_random(&state) % 4;
		uint64_t page =
			next_random(&state) % (scene->page_count - count + 1);

		write_generation(scene, fd, page, count, i);
		if (i % SOURCE_CHECK_EVERY)
			continue;
		read_exactly(source, data, PAGE_BYTES, page * PAGE_BYTES,
		             scene->source_path);
		check_page(data, page, i, scene->source_path);
	}
	close(source);
	close(fd);
}

int main(int argc, char **argv)
{
	struct scene scene = {0};
	pthread_t readers[READERS_MAX];
	unsigned reader_count;

	if (argc != 6)
		errx(2, "generations FILE SOURCE_FILE PAGES WRITES READERS");
	scene.path = argv[1];
	scene.source_path = argv[2];
	scene.page_count = strtoull(argv[3], NULL, 10);
	scene.writes = strtoull(argv[4], NULL, 10);
	reader_count = strtoul(argv[5], NULL, 10);
	if (scene.page_count < RUN_PAGES_MAX || reader_count > READERS_MAX)
		errx(2, "too few pages or too many readers");
	scene.published = calloc(scene.page_count, sizeof(*scene.published));
	if (!scene.published)
		err(2, "no memory");

	for (unsigned i = 0; i < reader_count; i++)
		if (pthread_create(&readers[i], NULL, reader_run, &scene))
			errx(2, "no thread");
	writer_run(&scene);
	atomic_store(&scene.is_over, true);
	for (unsigned i = 0; i < reader_count; i++)
		pthread_join(readers[i], NULL);
	free(scene.published);
	return 0;
}
