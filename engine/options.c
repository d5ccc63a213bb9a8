#include "engine/options.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "engine/cleanup.h"
#include "engine/log.h"
#include "engine/memory.h"
#include "engine/units.h"

enum {
	/* What is above it belongs to programs and to the kernel. */
	PERCENT_MAX = 90,
	/* Sizes are counted in pages. */
	SIZE_UNIT = 4096,
	/* Longest value that a message quotes. */
	QUOTE_BYTES = 48,
	/* Longest text of what is allowed. */
	ALLOWED_BYTES = 128,
};

enum option_kind {
	KIND_SIZE,
	KIND_MEMORY,
	KIND_COUNT,
	KIND_SECONDS,
	KIND_CHOICE,
	KIND_TEXT,
};

struct option_row {
	const char *name;
	const char *initial;
	const char *help;
	enum option_kind kind;
	enum option_when when;
	int64_t min;
	int64_t max;
	const char *words; /* of a CHOICE, separated by | */
	size_t offset;     /* in struct options */
};

static const struct option_row option_table[OPTION_COUNT] = {
#define OPTION(name, kind, initial, min, max, when, help) \
	[OPTION_##name] = {                               \
		#name,       initial,       help,         \
		KIND_##kind, OPTION_##when, min,          \
		max,         NULL,          offsetof(struct options, name)},
#define OPTION_CHOICE(name, initial, words, when, help) \
	[OPTION_##name] = {                             \
		#name,       initial,       help,       \
		KIND_CHOICE, OPTION_##when, 0,          \
		0,           words,         offsetof(struct options, name)},
#define OPTION_TEXT(name, initial, when, help)  \
	[OPTION_##name] = {                     \
		#name,     initial,       help, \
		KIND_TEXT, OPTION_##when, 0,    \
		0,         NULL,          offsetof(struct options, name)},
#include "engine/options.def"
#undef OPTION
#undef OPTION_CHOICE
#undef OPTION_TEXT
};

/* Two-level settings: a live value and the hard cap that sized the tables. */
static const struct {
	enum option_id id;
	enum option_id cap;
} option_caps[] = {
	{OPTION_effective_io_concurrency, OPTION_io_max_concurrency},
	{OPTION_io_combine_limit, OPTION_io_max_combine_limit},
};

static const struct option_row *option_row(enum option_id id)
{
	assert(id < OPTION_COUNT);
	return &option_table[id];
}

static const struct option_row *option_find(const char *name)
{
	for (size_t id = 0; id < OPTION_COUNT; id++)
		if (strcmp(option_table[id].name, name) == 0)
			return &option_table[id];
	return NULL;
}

static enum option_id option_id(const struct option_row *row)
{
	return (enum option_id)(row - option_table);
}

static _Atomic(int64_t) *option_number(const struct options *options,
                                       const struct option_row *row)
{
	assert(row->kind != KIND_TEXT);
	return (_Atomic(int64_t) *)((char *)options + row->offset);
}

static char **option_text(const struct options *options,
                          const struct option_row *row)
{
	assert(row->kind == KIND_TEXT);
	return (char **)((char *)options + row->offset);
}

/* @min is for a tiny machine, where the best that can be done is too much. */
static bool parse_memory(const char *text, int64_t min, int64_t *ret_number)
{
	int64_t percent;

	if (!units_parse_percent(text, &percent))
		return units_parse_size(text, ret_number);
	if (percent < 1 || percent > PERCENT_MAX)
		return false;

	int64_t number = (int64_t)(memory_limit() / 100) * percent;

	*ret_number = number > min ? number : min;
	return true;
}

static bool option_parse(const struct option_row *row, const char *value,
                         int64_t *ret_number)
{
	int64_t number;
	bool is_valid;

	switch (row->kind) {
	case KIND_CHOICE:
		return units_parse_word(value, row->words, ret_number);
	case KIND_COUNT:
		is_valid = units_parse_count(value, &number);
		break;
	case KIND_SECONDS:
		is_valid = units_parse_seconds(value, &number);
		break;
	case KIND_MEMORY:
		is_valid = parse_memory(value, row->min, &number);
		break;
	default:
		assert(row->kind == KIND_SIZE);
		is_valid = units_parse_size(value, &number);
	}
	if (!is_valid || number < row->min || number > row->max)
		return false;
	if (row->kind == KIND_SIZE || row->kind == KIND_MEMORY)
		number -= number % SIZE_UNIT;
	*ret_number = number;
	return true;
}

static void format_number(const struct option_row *row, int64_t number,
                          char *ret_text, size_t size)
{
	switch (row->kind) {
	case KIND_SIZE:
	case KIND_MEMORY:
		units_format_size(number, ret_text, size);
		return;
	case KIND_SECONDS:
		units_format_seconds(number, ret_text, size);
		return;
	case KIND_CHOICE:
		units_format_word(number, row->words, ret_text, size);
		return;
	default:
		assert(row->kind == KIND_COUNT);
		units_format_count(number, ret_text, size);
	}
}

void option_format(const struct options *options, enum option_id id,
                   char *ret_text, size_t size)
{
	const struct option_row *row = option_row(id);

	assert(size > 0);
	if (row->kind == KIND_TEXT)
		(void)snprintf(ret_text, size, "%s",
		               *option_text(options, row));
	else
		format_number(row,
		              atomic_load_explicit(option_number(options, row),
		                                   memory_order_relaxed),
		              ret_text, size);
}

static void allowed_range(const struct option_row *row, char *ret_text,
                          size_t size)
{
	static const char *const nouns[] = {
		[KIND_SIZE] = "a size (K, M, G, T)",
		[KIND_MEMORY] = "a size (K, M, G, T)",
		[KIND_COUNT] = "a number",
		[KIND_SECONDS] = "seconds",
	};
	char min[24], max[24];

	format_number(row, row->min, min, sizeof(min));
	format_number(row, row->max, max, sizeof(max));
	if (row->kind == KIND_MEMORY)
		(void)snprintf(ret_text, size,
		               "%s of at least %s, or 1%% to %d%% of memory",
		               nouns[row->kind], min, PERCENT_MAX);
	else
		(void)snprintf(ret_text, size, "%s from %s to %s",
		               nouns[row->kind], min, max);
}

void option_allowed(enum option_id id, char *ret_text, size_t size)
{
	const struct option_row *row = option_row(id);

	if (row->kind == KIND_CHOICE)
		(void)snprintf(ret_text, size, "%s", row->words);
	else if (row->kind == KIND_TEXT)
		(void)snprintf(ret_text, size, "a name");
	else
		allowed_range(row, ret_text, size);
}

/*
 * Setting
 */

static void option_store(struct options *options, const struct option_row *row,
                         int64_t number, enum option_origin origin)
{
	atomic_store_explicit(option_number(options, row), number,
	                      memory_order_relaxed);
	atomic_store_explicit(&options->origin[option_id(row)], origin,
	                      memory_order_relaxed);
}

static void log_lowered(const struct option_row *row, int64_t from, int64_t to,
                        const char *who)
{
	char from_text[24], to_text[24];

	format_number(row, from, from_text, sizeof(from_text));
	format_number(row, to, to_text, sizeof(to_text));
	log_message(LOG_WARNING, "%s=%s is lowered to %s: %s allows no more",
	            row->name, from_text, to_text, who);
}

/* The option that caps @id, or NULL. */
static const struct option_row *option_cap(enum option_id id)
{
	for (size_t i = 0; i < ARRAY_SIZE(option_caps); i++)
		if (option_caps[i].id == id)
			return option_row(option_caps[i].cap);
	return NULL;
}

/* Lanes see a live value at once, so it may not exceed its cap for a moment
 * until options_clamp() comes. */
static void option_store_live(struct options *options,
                              const struct option_row *row, int64_t number)
{
	const struct option_row *cap = option_cap(option_id(row));
	int64_t limit = INT64_MAX;

	if (cap)
		limit = atomic_load_explicit(option_number(options, cap),
		                             memory_order_relaxed);
	if (number <= limit) {
		option_store(options, row, number, ORIGIN_LIVE);
		return;
	}
	log_lowered(row, number, limit, cap->name);
	option_store(options, row, limit, ORIGIN_CLAMPED);
}

static int option_set_text(struct options *options,
                           const struct option_row *row, const char *value,
                           enum option_origin origin)
{
	char **text = option_text(options, row);
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*text);
	*text = copy;
	atomic_store_explicit(&options->origin[option_id(row)], origin,
	                      memory_order_relaxed);
	return 0;
}

static int option_set(struct options *options, const struct option_row *row,
                      const char *value, enum option_origin origin)
{
	int64_t number;

	if (origin == ORIGIN_LIVE && row->when == OPTION_FIXED)
		return -EPERM;
	if (row->kind == KIND_TEXT) {
		if (value[0] == '\0')
			return -EINVAL;
		return option_set_text(options, row, value, origin);
	}
	if (!option_parse(row, value, &number))
		return -EINVAL;
	if (origin == ORIGIN_LIVE)
		option_store_live(options, row, number);
	else
		option_store(options, row, number, origin);
	return 0;
}

static void option_explain(const struct option_row *row, const char *value,
                           int error, char *ret_reason)
{
	char allowed[ALLOWED_BYTES];

	option_allowed(option_id(row), allowed, sizeof(allowed));
	if (error == -EINVAL)
		(void)snprintf(ret_reason, OPTIONS_REASON_BYTES,
		               "%s=%.*s is not valid: allowed is %s", row->name,
		               QUOTE_BYTES, value, allowed);
	else if (error == -EPERM)
		(void)snprintf(ret_reason, OPTIONS_REASON_BYTES,
		               "%s is fixed while mounted: unmount, then mount "
		               "with -o %s=%.*s",
		               row->name, row->name, QUOTE_BYTES, value);
	else
		(void)snprintf(ret_reason, OPTIONS_REASON_BYTES, "%s: %s",
		               row->name, strerror(-error));
}

int options_set(struct options *options, const char *name, const char *value,
                enum option_origin origin, char *ret_reason)
{
	const struct option_row *row = option_find(name);

	if (!row) {
		(void)snprintf(ret_reason, OPTIONS_REASON_BYTES,
		               "there is no option %.*s: aheadfs -h lists all",
		               QUOTE_BYTES, name);
		return -ENOENT;
	}

	int err = option_set(options, row, value, origin);

	if (err)
		option_explain(row, value, err, ret_reason);
	return err;
}

void options_lower(struct options *options, enum option_id id, int64_t value,
                   const char *who)
{
	const struct option_row *row = option_row(id);
	int64_t current = atomic_load_explicit(option_number(options, row),
	                                       memory_order_relaxed);

	if (current <= value)
		return;
	if (atomic_load_explicit(&options->origin[id], memory_order_relaxed) !=
	    ORIGIN_DEFAULT)
		log_lowered(row, current, value, who);
	option_store(options, row, value, ORIGIN_CLAMPED);
}

void options_clamp(struct options *options)
{
	for (size_t i = 0; i < ARRAY_SIZE(option_caps); i++) {
		const struct option_row *cap = option_row(option_caps[i].cap);

		options_lower(options, option_caps[i].id,
		              atomic_load_explicit(option_number(options, cap),
		                                   memory_order_relaxed),
		              cap->name);
	}
}

int options_init(struct options *options)
{
	memset(options, 0, sizeof(*options));
	for (size_t id = 0; id < OPTION_COUNT; id++) {
		int err = option_set(options, &option_table[id],
		                     option_table[id].initial, ORIGIN_DEFAULT);

		/* The table's own values are valid: a unit test sees to it. */
		assert(err == 0 || err == -ENOMEM);
		if (err) {
			options_done(options);
			return err;
		}
	}
	return 0;
}

void options_done(struct options *options)
{
	for (size_t id = 0; id < OPTION_COUNT; id++) {
		if (option_table[id].kind != KIND_TEXT)
			continue;

		char **text = option_text(options, &option_table[id]);

		free(*text);
		*text = NULL;
	}
}

/*
 * What the table says
 */

bool options_is_name(const char *name)
{
	return option_find(name) != NULL;
}

const char *option_name(enum option_id id)
{
	return option_row(id)->name;
}

const char *option_help(enum option_id id)
{
	return option_row(id)->help;
}

const char *option_default(enum option_id id)
{
	return option_row(id)->initial;
}

enum option_when option_when(enum option_id id)
{
	return option_row(id)->when;
}

const char *option_origin_word(enum option_origin origin)
{
	static const char *const words[] = {
		[ORIGIN_DEFAULT] = "default",
		[ORIGIN_MOUNT] = "mount",
		[ORIGIN_LIVE] = "live",
		[ORIGIN_CLAMPED] = "clamped",
	};

	assert(origin < ARRAY_SIZE(words));
	return words[origin];
}
