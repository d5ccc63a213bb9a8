/*
 * pattern - files of bytes that every reader can check by himself
 *
 *	pattern write FILE SEED BYTES
 *	pattern read FILE SEED [OPTION=VALUE...]
 *
 * The bytes look random, but each follows from the seed and its offset, so a
 * reader needs no second copy to compare with, in whatever order it reads.
 * `read` reads every byte once, checks it and prints how many requests it made,
 * for how many bytes, and how many 4 KiB pages these touched.
 *
 *	block=N		bytes of a request, need not be aligned (131072)
 *	order=WORD	forward, backward, strided, scattered
 *	rate=N		at most N bytes a second
 *	part=N		stop after N bytes
 *	times=N		do it N times; 0: until killed
 *	direct=1	O_DIRECT
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	WRITE_BYTES = 1 << 20,
	/* Blocks between neighbours of a strided reader. */
	STRIDE = 7,
	PAGE_BYTES = 4096,
};

enum order { FORWARD, BACKWARD, STRIDED, SCATTERED };

struct reader {
	const char *path;
	uint64_t seed;
	uint64_t block;
	enum order order;
	uint64_t rate;
	uint64_t part;
	uint64_t times;
	uint64_t direct;

	int fd;
	uint64_t size;
	uint64_t block_count;
	char *buffer;
	char *expected;

	uint64_t reads;
	uint64_t bytes;
	uint64_t pages;
};

/* The finalizer of splitmix64: neighbouring inputs share no bits. */
static uint64_t word_at(uint64_t seed, uint64_t index)
{
	uint64_t x = seed + (index + 1) * 0x9e3779b97f4a7c15;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

/* What stands at @offset.  @buffer has 8 bytes to spare, for the last word. */
static char *fill(char *buffer, uint64_t seed, uint64_t offset, size_t length)
{
	size_t skip = offset % sizeof(uint64_t);
	uint64_t first = offset / sizeof(uint64_t);
	size_t words = (skip + length + 7) / sizeof(uint64_t);

	for (size_t i = 0; i < words; i++) {
		uint64_t word = word_at(seed, first + i);

		memcpy(buffer + i * sizeof(word), &word, sizeof(word));
	}
	return buffer + skip;
}

static char *allocate(size_t length)
{
	size_t rounded = (length + 2 * PAGE_BYTES) & ~(size_t)(PAGE_BYTES - 1);
	char *memory = aligned_alloc(PAGE_BYTES, rounded);

	if (!memory)
		err(2, "no memory");
	return memory;
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (!*text || *end)
		errx(2, "not a number: %s", text);
	return value;
}

static void write_file(const char *path, uint64_t seed, uint64_t size)
{
	char *buffer = allocate(WRITE_BYTES);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		err(1, "%s", path);
	for (uint64_t offset = 0; offset < size;) {
		uint64_t left = size - offset;
		size_t length = left < WRITE_BYTES ? left : WRITE_BYTES;
		char *data = fill(buffer, seed, offset, length);
		ssize_t written = pwrite(fd, data, length, offset);

		if (written <= 0)
			err(1, "write %s", path);
		offset += written;
	}
	if (close(fd) < 0)
		err(1, "close %s", path);
	free(buffer);
}

/* Position of the @i-th request among the blocks: each block once. */
static uint64_t nth_block(const struct reader *reader, uint64_t i)
{
	uint64_t count = reader->block_count;
	uint64_t rows = (count + STRIDE - 1) / STRIDE;
	uint64_t longer = count - (rows - 1) * STRIDE;

	switch (reader->order) {
	case FORWARD:
		return i;
	case BACKWARD:
		return count - 1 - i;
	case STRIDED:
		/* Columns of a table that is STRIDE wide; the first ones are
		 * longer by the last row. */
		if (i < longer * rows)
			return i % rows * STRIDE + i / rows;
		i -= longer * rows;
		return i % (rows - 1) * STRIDE + longer + i / (rows - 1);
	case SCATTERED:
		break;
	}
	/* A prime that is no divisor of the count visits everything. */
	return (i * (count % 1000003 ? 1000003 : 999983)) % count;
}

static void check(struct reader *reader, uint64_t offset, size_t length)
{
	char *expected = fill(reader->expected, reader->seed, offset, length);

	if (!memcmp(expected, reader->buffer, length))
		return;
	for (size_t i = 0; i < length; i++)
		if (expected[i] != reader->buffer[i])
			errx(1, "%s: wrong byte at %" PRIu64 ", block %" PRIu64,
			     reader->path, offset + i, offset);
}

static void read_block(struct reader *reader, uint64_t index)
{
	uint64_t offset = index * reader->block;
	uint64_t left = reader->size - offset;
	size_t length = left < reader->block ? left : reader->block;
	size_t asked = reader->direct ? reader->block : length;
	ssize_t got = pread(reader->fd, reader->buffer, asked, offset);

	if (got < 0)
		err(1, "%s: read at %" PRIu64, reader->path, offset);
	if ((size_t)got != length)
		errx(1, "%s: %zd bytes instead of %zu at %" PRIu64,
		     reader->path, got, length, offset);
	check(reader, offset, length);
	reader->reads++;
	reader->bytes += length;
	reader->pages +=
		(offset + length - 1) / PAGE_BYTES - offset / PAGE_BYTES + 1;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void hold_back(const struct reader *reader, double start)
{
	double early = (double)reader->bytes / reader->rate - (now() - start);

	if (early > 0)
		usleep(early * 1e6);
}

static void read_file(struct reader *reader)
{
	double start = now();
	uint64_t until = reader->block_count;

	if (reader->part)
		until = (reader->part + reader->block - 1) / reader->block;
	if (until > reader->block_count)
		until = reader->block_count;
	for (uint64_t round = 0; !reader->times || round < reader->times;
	     round++)
		for (uint64_t i = 0; i < until; i++) {
			read_block(reader, nth_block(reader, i));
			if (reader->rate)
				hold_back(reader, start);
		}
}

static enum order order_of(const char *word)
{
	static const char *const words[] = {"forward", "backward", "strided",
	                                    "scattered"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(word, words[i]))
			return i;
	errx(2, "no such order: %s", word);
}

static void set(struct reader *reader, char *argument)
{
	struct {
		const char *name;
		uint64_t *value;
	} numbers[] = {
		{"block", &reader->block},   {"rate", &reader->rate},
		{"part", &reader->part},     {"times", &reader->times},
		{"direct", &reader->direct},
	};
	char *value = strchr(argument, '=');

	if (!value)
		errx(2, "not OPTION=VALUE: %s", argument);
	*value++ = '\0';
	if (!strcmp(argument, "order")) {
		reader->order = order_of(value);
		return;
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!strcmp(argument, numbers[i].name)) {
			*numbers[i].value = number(value);
			return;
		}
	errx(2, "no such option: %s", argument);
}

static void reader_open(struct reader *reader)
{
	int flags = O_RDONLY | O_CLOEXEC | (reader->direct ? O_DIRECT : 0);
	struct stat stat;

	if (reader->block == 0)
		errx(2, "a block has at least one byte");
	reader->fd = open(reader->path, flags);
	if (reader->fd < 0 || fstat(reader->fd, &stat) < 0)
		err(1, "%s", reader->path);
	reader->size = stat.st_size;
	reader->block_count =
		(reader->size + reader->block - 1) / reader->block;
	reader->buffer = allocate(reader->block);
	reader->expected = allocate(reader->block);
}

static void reader_close(struct reader *reader)
{
	free(reader->buffer);
	free(reader->expected);
	close(reader->fd);
}

int main(int argc, char **argv)
{
	struct reader reader = {.block = 128 << 10, .times = 1};

	if (argc == 5 && !strcmp(argv[1], "write")) {
		write_file(argv[2], number(argv[3]), number(argv[4]));
		return 0;
	}
	if (argc < 4 || strcmp(argv[1], "read"))
		errx(2, "pattern write FILE SEED BYTES, or "
		        "pattern read FILE SEED [OPTION=VALUE...]");
	reader.path = argv[2];
	reader.seed = number(argv[3]);
	for (int i = 4; i < argc; i++)
		set(&reader, argv[i]);
	reader_open(&reader);
	read_file(&reader);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", reader.reads,
	       reader.bytes, reader.pages);
	reader_close(&reader);
	return 0;
}
