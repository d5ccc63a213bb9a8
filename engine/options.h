/*
 * options.h - what a user can tune
 *
 * struct options is generated from options.def.  Numbers are atomic, relaxed:
 * a live option is written by whoever writes the config file and read by every
 * lane, and no option orders anything else.
 */
#ifndef ENGINE_OPTIONS_H
#define ENGINE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_id {
#define OPTION(name, ...)        OPTION_##name,
#define OPTION_CHOICE(name, ...) OPTION_##name,
#define OPTION_TEXT(name, ...)   OPTION_##name,
#include "engine/options.def"
#undef OPTION
#undef OPTION_CHOICE
#undef OPTION_TEXT
	OPTION_COUNT
};

enum option_when { OPTION_FIXED, OPTION_LIVE };

/* Where a value came from, as the config file shows it. */
enum option_origin {
	ORIGIN_DEFAULT, /* the table */
	ORIGIN_MOUNT,   /* -o NAME=VALUE */
	ORIGIN_LIVE,    /* written to the config file */
	ORIGIN_CLAMPED, /* lowered to its io_max_ sibling, or to the machine */
};

/* The words of a CHOICE, in the order of the table. */
enum choice_io_method {
	IO_METHOD_AUTO,
	IO_METHOD_URING,
	IO_METHOD_WORKER,
	IO_METHOD_SYNC,
};
enum choice_tristate { CHOICE_AUTO, CHOICE_ON, CHOICE_OFF };
enum choice_on_corruption { ON_CORRUPTION_EIO, ON_CORRUPTION_LOG };

struct options {
#define OPTION(name, ...)        _Atomic(int64_t) name;
#define OPTION_CHOICE(name, ...) _Atomic(int64_t) name;
#define OPTION_TEXT(name, ...)   char *name;
#include "engine/options.def"
#undef OPTION
#undef OPTION_CHOICE
#undef OPTION_TEXT
	_Atomic(uint8_t) origin[OPTION_COUNT];
};

/* Current value of a number.  Sizes are bytes, SECONDS are milliseconds. */
#define option_get(options, name) \
	atomic_load_explicit(&(options)->name, memory_order_relaxed)

/* Every option at its default.  -ENOMEM. */
int options_init(struct options *options);
void options_done(struct options *options);

/*
 * Set option @name to the text @value.  On failure the option keeps its value
 * and @ret_reason (at least OPTIONS_REASON_BYTES) says in one line what is
 * wrong and what is allowed.  -ENOENT: no such option; -EINVAL: bad value;
 * -EPERM: @origin is ORIGIN_LIVE and the option is fixed at mount; -ENOMEM.
 */
enum { OPTIONS_REASON_BYTES = 256 };
int options_set(struct options *options, const char *name, const char *value,
                enum option_origin origin, char *ret_reason);

/* Bring every value below its hard sibling (io_max_...), marking it clamped. */
void options_clamp(struct options *options);

/*
 * Lower a number to @value because @who ("the hard limit") allows no more,
 * marking it clamped; nothing happens if it is not above.  One line in the log,
 * except for a default: it gives way silently, nobody asked for it.
 */
void options_lower(struct options *options, enum option_id id, int64_t value,
                   const char *who);

bool options_is_name(const char *name);
const char *option_name(enum option_id id);
const char *option_help(enum option_id id);
const char *option_default(enum option_id id);
enum option_when option_when(enum option_id id);
const char *option_origin_word(enum option_origin origin);

/* What the option may be set to: "a size from 4K to 1M". */
void option_allowed(enum option_id id, char *ret_text, size_t size);

/* The value as options_set() would read it back: 256M, 1.5, auto. */
void option_format(const struct options *options, enum option_id id,
                   char *ret_text, size_t size);

#endif
