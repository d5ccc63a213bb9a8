#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/backing.h"
#include "engine/cleanup.h"
#include "engine/clock.h"
#include "engine/identity.h"

#define rig_set(rig, name, value) atomic_store(&(rig)->options.name, value)

static void rig_apply(struct rig *rig, const struct rig_setup *setup)
{
	size_t pages = setup->cache_pages ? setup->cache_pages
	                                  : RIG_DEFAULT_PAGES;

	/* The checksums have their share of cache_size; pages is what is left
	 * for the others. */
	size_t bytes = pages * CACHE_PAGE_COST;

	if (!setup->has_no_sums)
		bytes += bytes / 63 + RIG_PAGE;
	rig_set(rig, cache_size, (int64_t)bytes);
	rig_set(rig, io_method, setup->method);
	rig_set(rig, direct, setup->direct);
	rig_set(rig, checksums, !setup->has_no_sums);
	rig_set(rig, on_corruption,
	        setup->logs_corruption ? ON_CORRUPTION_LOG : ON_CORRUPTION_EIO);
	if (setup->io_concurrency)
		rig_set(rig, io_max_concurrency, setup->io_concurrency);
	if (setup->combine_bytes)
		rig_set(rig, io_combine_limit, (int64_t)setup->combine_bytes);
	if (setup->has_no_readahead)
		rig_set(rig, readahead_max, 0);
	options_clamp(&rig->options);
}

void rig_open(struct rig *rig, const struct rig_setup *setup)
{
	*rig = (struct rig){.directory = "engine-test-XXXXXX"};
	assert_int_equal(options_init(&rig->options), 0);
	rig_apply(rig, setup);
	assert_non_null(mkdtemp(rig->directory));
	rig->directory_fd = open(rig->directory, O_PATH | O_DIRECTORY);
	assert_true(rig->directory_fd >= 0);
	assert_int_equal(engine_open(&rig->options, &rig->engine), 0);
}

size_t rig_pinned_pages(struct rig *rig)
{
	struct cache *cache = &rig->engine->cache;
	size_t count = 0;

	scoped_lock(&cache->lock);
	for (size_t i = 0; i < cache->arena.fresh; i++) {
		const struct page *page = &cache->arena.pages[i];

		/* One reference is the index's. */
		count += page->state != PAGE_FREE &&
		         atomic_load(&page->references) > 1;
	}
	return count;
}

void rig_quiesce(struct rig *rig)
{
	engine_quiesce(rig->engine);
}

void rig_close(struct rig *rig)
{
	rig_quiesce(rig);
	assert_int_equal(rig_pinned_pages(rig), 0);
	assert_true(cache_check(&rig->engine->cache));
	assert_true(rig_stat_of(rig, cache_bytes) <=
	            rig_stat_of(rig, cache_limit_bytes));
	assert_int_equal(rig_stat_of(rig, io_inflight), 0);
	engine_close(rig->engine);
	options_done(&rig->options);
	close(rig->directory_fd);
	assert_int_equal(rmdir(rig->directory), 0);
}

uint64_t rig_stat(struct rig *rig, enum stat_id id)
{
	return engine_stat(rig->engine, id);
}

void rig_fill(void *bytes, uint64_t offset, size_t length, uint32_t seed)
{
	unsigned char *at = bytes;

	for (size_t i = 0; i < length; i++) {
		uint64_t word = (offset + i) / 8 + 1 + ((uint64_t)seed << 40);

		word *= 0x9E3779B97F4A7C15ULL;
		word ^= word >> 29;
		word *= 0xBF58476D1CE4E5B9ULL;
		at[i] = (unsigned char)(word >> (8 * ((offset + i) % 8)));
	}
}

static int rig_opener(void *context, int flags)
{
	struct rig_file *file = context;
	int fd = openat(file->rig->directory_fd, file->name, flags | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static struct file_key rig_key(const struct rig_file *file)
{
	struct stat stat;

	assert_int_equal(fstat(file->fd, &stat), 0);
	return (struct file_key){.device = stat.st_dev, .inode = stat.st_ino};
}

static void rig_model_grow(struct rig_file *file, size_t size)
{
	if (size <= file->capacity)
		return;
	size_t capacity = size * 2;

	file->model = realloc(file->model, capacity);
	assert_non_null(file->model);
	memset(file->model + file->capacity, 0, capacity - file->capacity);
	file->capacity = capacity;
}

void rig_file_open(struct rig *rig, struct rig_file *file, const char *name,
                   size_t size)
{
	*file = (struct rig_file){.rig = rig, .size = size};
	(void)snprintf(file->name, sizeof(file->name), "%s", name);
	rig_model_grow(file, size);
	rig_model_grow(file, 1);
	rig_fill(file->model, 0, size, 0);
	file->fd = openat(rig->directory_fd, name,
	                  O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(file->fd >= 0);
	assert_int_equal(pwrite(file->fd, file->model, size, 0), size);

	struct file_key key = rig_key(file);

	assert_int_equal(file_open(rig->engine, &key, rig_opener, file,
	                           &file->file, NULL),
	                 0);
}

void rig_file_close(struct rig_file *file)
{
	file_close(file->file);
	close(file->fd);
	assert_int_equal(unlinkat(file->rig->directory_fd, file->name, 0), 0);
	free(file->model);
}

bool rig_file_visit(struct rig_file *file)
{
	struct file_key key = rig_key(file);
	struct file *again;
	bool is_changed;

	assert_int_equal(file_open(file->rig->engine, &key, rig_opener, file,
	                           &again, &is_changed),
	                 0);
	assert_ptr_equal(again, file->file);
	file_close(again);
	return is_changed;
}

void rig_file_settle(struct rig_file *file)
{
	struct identity identity;

	assert_int_equal(identity_read(file->fd, &identity), 0);
	while (!identity_is_settled(&identity, clock_wall_ns(),
	                            file->file->has_fine_stamps))
		sched_yield();
}

static void rig_read_finish(struct read *read)
{
	struct rig_read *rig_read = container_of(read, struct rig_read, read);
	struct iovec vectors[READ_PAGES_MAX];
	size_t count = read_vectors(read, vectors);
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		memcpy(rig_read->buffer + at, vectors[i].iov_base,
		       vectors[i].iov_len);
		at += vectors[i].iov_len;
	}
	if (read->result >= 0)
		assert(at == (size_t)read->result);
	rig_read->result = read->result;
	read_release(read);
	sem_post(&rig_read->done);
}

static void rig_read_run(struct task *task)
{
	struct rig_read *read = container_of(task, struct rig_read, task);

	if (file_read(read->lane, read->file, &read->read) == READ_DONE)
		rig_read_finish(&read->read);
}

void rig_read_start(struct rig_read *read, struct rig_file *file, unsigned lane,
                    uint64_t offset, size_t length)
{
	struct engine *engine = file->rig->engine;

	read->lane = engine_lane(engine, lane % engine_lane_count(engine));
	read->file = file->file;
	read->read.offset = offset;
	read->read.length = length;
	read->read.done = rig_read_finish;
	read->task.run = rig_read_run;
	read->buffer = malloc(length + 1);
	assert_non_null(read->buffer);
	sem_init(&read->done, 0, 0);
	lane_post(read->lane, &read->task);
}

bool rig_read_is_done(struct rig_read *read)
{
	int value;

	sem_getvalue(&read->done, &value);
	return value > 0;
}

ssize_t rig_read_wait(struct rig_read *read, void *ret_bytes)
{
	while (sem_wait(&read->done) < 0)
		assert(errno == EINTR);
	sem_destroy(&read->done);
	if (ret_bytes && read->result > 0)
		memcpy(ret_bytes, read->buffer, (size_t)read->result);
	free(read->buffer);
	return read->result;
}

ssize_t rig_read(struct rig_file *file, unsigned lane, uint64_t offset,
                 size_t length, void *ret_bytes)
{
	struct rig_read read;

	rig_read_start(&read, file, lane, offset, length);
	return rig_read_wait(&read, ret_bytes);
}

/* What a read(2) of the model would give. */
static size_t rig_model_length(const struct rig_file *file, uint64_t offset,
                               size_t length)
{
	if (offset >= file->size)
		return 0;
	return length < file->size - offset ? length : file->size - offset;
}

void rig_expect_read(struct rig_file *file, unsigned lane, uint64_t offset,
                     size_t length)
{
	size_t expected = rig_model_length(file, offset, length);
	auto_free char *bytes = malloc(length + 1);
	ssize_t n = rig_read(file, lane, offset, length, bytes);

	assert_int_equal(n, expected);
	if (n > 0)
		assert_memory_equal(bytes, file->model + offset, n);
}

void rig_expect_error(struct rig_file *file, unsigned lane, uint64_t offset,
                      size_t length, int error)
{
	assert_int_equal(rig_read(file, lane, offset, length, NULL), error);
}

static void rig_put(struct rig_file *file, uint64_t offset, size_t length,
                    uint32_t seed)
{
	rig_model_grow(file, offset + length);
	rig_fill(file->model + offset, offset, length, seed);
	if (file->size < offset + length)
		file->size = offset + length;
	assert_int_equal(
		pwrite(file->fd, file->model + offset, length, (off_t)offset),
		length);
}

void rig_write(struct rig_file *file, uint64_t offset, size_t length,
               uint32_t seed)
{
	struct change change;

	file_change_begin(file->file, &change, offset, length);
	rig_put(file, offset, length, seed);
	file_change_end(file->file, &change, file->model + offset, offset,
	                length);
}

void rig_write_behind(struct rig_file *file, uint64_t offset, size_t length,
                      uint32_t seed)
{
	rig_put(file, offset, length, seed);
}

void rig_truncate(struct rig_file *file, uint64_t size)
{
	struct change change;
	uint64_t from = size < file->size ? size : file->size;

	file_change_begin(file->file, &change, from, FILE_TO_END);
	assert_int_equal(ftruncate(file->fd, (off_t)size), 0);
	rig_model_grow(file, size);
	if (size < file->size)
		memset(file->model + size, 0, file->size - size);
	file->size = size;
	file_change_end(file->file, &change, NULL, from, 0);
}

void rig_punch(struct rig_file *file, uint64_t offset, size_t length)
{
	struct change change;

	file_change_begin(file->file, &change, offset, length);
	assert_int_equal(fallocate(file->fd,
	                           FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	                           (off_t)offset, (off_t)length),
	                 0);
	memset(file->model + offset, 0, rig_model_length(file, offset, length));
	file_change_end(file->file, &change, NULL, offset, length);
}
