#include "engine/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cleanup.h"

/* Digits only: strtoll() alone would take blanks and signs as well. */
static bool parse_digits(const char **text, int64_t *ret_number)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	*ret_number = strtoll(*text, &end, 10);
	*text = end;
	return errno == 0;
}

bool units_parse_count(const char *text, int64_t *ret_number)
{
	int64_t number;

	if (!parse_digits(&text, &number) || *text != '\0')
		return false;
	*ret_number = number;
	return true;
}

bool units_parse_size(const char *text, int64_t *ret_number)
{
	static const char units[] = "KMGT";
	int64_t number;

	if (!parse_digits(&text, &number))
		return false;
	if (*text != '\0') {
		const char *unit = strchr(units, toupper((unsigned char)*text));

		if (!unit || text[1] != '\0')
			return false;

		int shift = 10 * (int)(unit - units + 1);

		if (number > INT64_MAX >> shift)
			return false;
		number <<= shift;
	}
	*ret_number = number;
	return true;
}

bool units_parse_percent(const char *text, int64_t *ret_number)
{
	int64_t number;

	if (!parse_digits(&text, &number) || strcmp(text, "%") != 0)
		return false;
	*ret_number = number;
	return true;
}

bool units_parse_seconds(const char *text, int64_t *ret_number)
{
	int64_t number;

	if (!parse_digits(&text, &number) || number > INT64_MAX / 1000 - 1)
		return false;
	number *= 1000;
	if (*text == '.') {
		int64_t unit = 100;

		if (!isdigit((unsigned char)*++text))
			return false;
		for (; isdigit((unsigned char)*text) && unit; unit /= 10)
			number += unit * (*text++ - '0');
	}
	if (*text != '\0')
		return false;
	*ret_number = number;
	return true;
}

bool units_parse_word(const char *text, const char *words, int64_t *ret_number)
{
	size_t length = strlen(text);

	for (int64_t position = 0; *words; position++) {
		size_t here = strcspn(words, "|");

		if (here == length && strncmp(words, text, length) == 0) {
			*ret_number = position;
			return true;
		}
		words += here;
		words += *words == '|';
	}
	return false;
}

void units_format_count(int64_t number, char *ret_text, size_t size)
{
	(void)snprintf(ret_text, size, "%" PRId64, number);
}

void units_format_size(int64_t number, char *ret_text, size_t size)
{
	static const char *const units[] = {"", "K", "M", "G", "T"};
	size_t unit = 0;

	while (number && number % 1024 == 0 && unit + 1 < ARRAY_SIZE(units)) {
		number /= 1024;
		unit++;
	}
	(void)snprintf(ret_text, size, "%" PRId64 "%s", number, units[unit]);
}

void units_format_seconds(int64_t number, char *ret_text, size_t size)
{
	int decimals = 3;
	int64_t fraction = number % 1000;

	while (decimals && fraction % 10 == 0) {
		fraction /= 10;
		decimals--;
	}
	if (decimals)
		(void)snprintf(ret_text, size, "%" PRId64 ".%0*" PRId64,
		               number / 1000, decimals, fraction);
	else
		(void)snprintf(ret_text, size, "%" PRId64, number / 1000);
}

void units_format_word(int64_t number, const char *words, char *ret_text,
                       size_t size)
{
	for (; number > 0; number--)
		words += strcspn(words, "|") + 1;
	(void)snprintf(ret_text, size, "%.*s", (int)strcspn(words, "|"), words);
}
