/*
 * mountinfo.h - the mounts of this process, one after the other
 *
 * Reads a file in the format of proc_pid_mountinfo(5).  It never looks at the
 * mounts themselves, so it is safe to use while one of them does not answer.
 *
 *	err = mountinfo_open("/proc/self/mountinfo", &mounts);
 *	while (mountinfo_next(&mounts))
 *		...mounts.point...
 *	mountinfo_close(&mounts);
 */
#ifndef ENGINE_MOUNTINFO_H
#define ENGINE_MOUNTINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct mountinfo {
	/* The current mount; the texts are valid until the next call. */
	unsigned major;
	unsigned minor;
	const char *root;  /* the directory of the filesystem that is seen */
	const char *point; /* where it is mounted */
	const char *type;
	const char *super_options;

	FILE *stream;
	char *line;
	size_t line_bytes;
};

int mountinfo_open(const char *path, struct mountinfo *ret_mounts);

/* Step to the next mount, false when there is none. */
bool mountinfo_next(struct mountinfo *mounts);
void mountinfo_close(struct mountinfo *mounts);

/* Is @word one of the comma separated words of @list? */
bool mountinfo_has_word(const char *list, const char *word);

#endif
