/*
 * units.h - numbers as people write them
 *
 * Text to number and back: sizes (256M), seconds (1.5), percents (25%) and
 * words of a list (auto|on|off).  Strict: no blanks, no signs, nothing after
 * the number, no overflow.  What is formatted is parsed back to the same
 * number.
 *
 * Pure functions: no I/O, no locks, no allocation.
 */
#ifndef ENGINE_UNITS_H
#define ENGINE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False, with @ret_number untouched: the text is something else. */
bool units_parse_count(const char *text, int64_t *ret_number);

/* K, M, G and T, upper or lower case, count in 1024. */
bool units_parse_size(const char *text, int64_t *ret_number);
bool units_parse_percent(const char *text, int64_t *ret_number);

/* Milliseconds: 1.5 is 1500.  A fourth decimal would be lost: refused. */
bool units_parse_seconds(const char *text, int64_t *ret_number);

/* The position of the text among @words, which are separated by |. */
bool units_parse_word(const char *text, const char *words, int64_t *ret_number);

void units_format_count(int64_t number, char *ret_text, size_t size);
void units_format_size(int64_t number, char *ret_text, size_t size);
void units_format_seconds(int64_t number, char *ret_text, size_t size);
void units_format_word(int64_t number, const char *words, char *ret_text,
                       size_t size);

#endif
