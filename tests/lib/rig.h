/*
 * rig.h - an engine over temporary files, driven by the test's own threads
 *
 * A rig is an engine with small options of the test's choice and a directory
 * for its files, which lies in the working directory, because /tmp may be a
 * filesystem without O_DIRECT.  Each file has a model in memory: what SOURCE
 * holds.  Reads are brought to a lane and waited for with a semaphore.
 *
 *	rig_open(&rig, &(struct rig_setup){.cache_pages = 64});
 *	rig_file_open(&rig, &file, "a", 1 << 20);
 *	rig_expect_read(&file, 0, offset, length);	bytes as in the model
 *	rig_write(&file, offset, length, seed);
 *	rig_file_close(&file);
 *	rig_close(&rig);		asserts that nothing stayed pinned
 */
#ifndef TESTS_LIB_RIG_H
#define TESTS_LIB_RIG_H

#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/core.h"
#include "engine/file.h"
#include "engine/options.h"

enum {
	RIG_PAGE = 4096,
	RIG_DEFAULT_PAGES = 8192,
};

/* What is 0 has a default. */
struct rig_setup {
	enum choice_io_method method;
	size_t cache_pages;      /* that data and index may use together */
	unsigned io_concurrency; /* for all lanes together */
	size_t combine_bytes;
	bool has_no_readahead;
	bool has_no_sums;
	bool logs_corruption;
	enum choice_tristate direct;
};

struct rig {
	struct options options;
	struct engine *engine;
	char directory[32];
	int directory_fd;
};

struct rig_file {
	struct rig *rig;
	struct file *file;
	char name[16];
	int fd; /* the writer's */
	char *model;
	size_t size;
	size_t capacity; /* of the model */
};

/* A read on its way; rig_read_wait() ends it. */
struct rig_read {
	struct read read;
	struct task task;
	struct lane *lane;
	struct file *file;
	char *buffer;
	ssize_t result;
	sem_t done;
};

void rig_open(struct rig *rig, const struct rig_setup *setup);
void rig_close(struct rig *rig);

/* Pages that somebody has pinned, or that are being read. */
size_t rig_pinned_pages(struct rig *rig);
uint64_t rig_stat(struct rig *rig, enum stat_id id);
#define rig_stat_of(rig, name) rig_stat(rig, STAT_##name)

/* A file of @size bytes that differ everywhere, open in the engine. */
void rig_file_open(struct rig *rig, struct rig_file *file, const char *name,
                   size_t size);
void rig_file_close(struct rig_file *file);

/* Like an open of the file by somebody else: true if it was found changed. */
bool rig_file_visit(struct rig_file *file);

/* Wait until the file's stamps are old enough to be trusted. */
void rig_file_settle(struct rig_file *file);

void rig_read_start(struct rig_read *read, struct rig_file *file, unsigned lane,
                    uint64_t offset, size_t length);
bool rig_read_is_done(struct rig_read *read);

/* Bytes of @ret_bytes (may be NULL), which holds what was asked for. */
ssize_t rig_read_wait(struct rig_read *read, void *ret_bytes);
ssize_t rig_read(struct rig_file *file, unsigned lane, uint64_t offset,
                 size_t length, void *ret_bytes);

/* The read gives what the model holds there. */
void rig_expect_read(struct rig_file *file, unsigned lane, uint64_t offset,
                     size_t length);
/* The read gives this error. */
void rig_expect_error(struct rig_file *file, unsigned lane, uint64_t offset,
                      size_t length, int error);

/* Changes through the engine; the model follows. */
void rig_write(struct rig_file *file, uint64_t offset, size_t length,
               uint32_t seed);
void rig_truncate(struct rig_file *file, uint64_t size);
void rig_punch(struct rig_file *file, uint64_t offset, size_t length);

/* Changes behind the engine's back; the model follows. */
void rig_write_behind(struct rig_file *file, uint64_t offset, size_t length,
                      uint32_t seed);

/* Wait until everything that was started has come to rest, background readahead
 * included. */
void rig_quiesce(struct rig *rig);

/* A small generator, so that a failure can be repeated. */
static inline uint32_t rig_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(*state >> 33);
}

static inline uint64_t rig_below(uint64_t *state, uint64_t limit)
{
	uint64_t high = rig_random(state);

	return (high << 31 | rig_random(state)) % limit;
}

/* Bytes that differ everywhere and for each @seed. */
void rig_fill(void *bytes, uint64_t offset, size_t length, uint32_t seed);

#endif
