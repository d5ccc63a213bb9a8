#include "engine/mountinfo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int mountinfo_open(const char *path, struct mountinfo *ret_mounts)
{
	FILE *stream = fopen(path, "re");

	if (!stream)
		return -errno;
	*ret_mounts = (struct mountinfo){.stream = stream};
	return 0;
}

void mountinfo_close(struct mountinfo *mounts)
{
	free(mounts->line);
	fclose(mounts->stream);
}

static bool is_octal(char letter)
{
	return letter >= '0' && letter <= '7';
}

/* Blanks and backslashes of a name are written as \ooo. */
static char *unescape(char *text)
{
	char *out = text;

	for (const char *in = text; *in; out++) {
		if (in[0] == '\\' && is_octal(in[1]) && is_octal(in[2]) &&
		    is_octal(in[3])) {
			*out = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 |
			              (in[3] - '0'));
			in += 4;
		} else {
			*out = *in++;
		}
	}
	*out = '\0';
	return text;
}

/* id parent major:minor root point options [optional...] - type source super */
static bool mountinfo_parse(struct mountinfo *mounts)
{
	char *rest = mounts->line;
	char *field[6];

	rest[strcspn(rest, "\n")] = '\0';
	for (size_t i = 0; i < 6; i++) {
		field[i] = strsep(&rest, " ");
		if (!field[i])
			return false;
	}
	if (sscanf(field[2], "%u:%u", &mounts->major, &mounts->minor) != 2)
		return false;
	mounts->root = unescape(field[3]);
	mounts->point = unescape(field[4]);

	char *optional = strsep(&rest, " ");

	while (optional && strcmp(optional, "-") != 0)
		optional = strsep(&rest, " ");
	mounts->type = strsep(&rest, " ");
	(void)strsep(&rest, " "); /* the source: nobody needs it */
	mounts->super_options = rest;
	return mounts->super_options != NULL;
}

bool mountinfo_next(struct mountinfo *mounts)
{
	while (getline(&mounts->line, &mounts->line_bytes, mounts->stream) > 0)
		if (mountinfo_parse(mounts))
			return true;
	return false;
}

bool mountinfo_has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *start = list; *start;) {
		size_t here = strcspn(start, ",");

		if (here == length && strncmp(start, word, length) == 0)
			return true;
		start += here;
		start += *start == ',';
	}
	return false;
}
