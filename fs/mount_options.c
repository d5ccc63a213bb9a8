/*
 * mount_options.c - the words of -o that are not options of aheadfs
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <fuse_opt.h>

#include "engine/cleanup.h"
#include "fs/mount.h"

/* What libfuse or the kernel understands; = marks a word with a value. */
static const char *const passed_words[] = {
	"ro",       "rw",          "suid",        "nosuid",
	"dev",      "nodev",       "exec",        "noexec",
	"async",    "sync",        "dirsync",     "atime",
	"noatime",  "allow_other", "fsname=",     "default_permissions",
	"context=", "fscontext=",  "defcontext=", "rootcontext=",
};

/* What mount(8) and fstab use among themselves, what cannot apply to us (SOURCE
 * keeps the access times), and our type, which we find our mounts by. */
static const char *const ignored_words[] = {
	"defaults",   "auto",        "noauto",        "user",
	"nouser",     "users",       "owner",         "group",
	"nofail",     "_netdev",     "user=",         "comment=",
	"x-",         "X-",          "subtype=",      "relatime",
	"norelatime", "strictatime", "diratime",      "nodiratime",
	"lazytime",   "nolazytime",  "nostrictatime", "loud",
	"silent",
};

/* A word of the list that ends in = or - is a prefix. */
static bool word_is_in(const char *word, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(list[i]);
		char last = list[i][length - 1];
		bool is_prefix = last == '=' || last == '-';

		if (strncmp(word, list[i], length) == 0 &&
		    (is_prefix || word[length] == '\0'))
			return true;
	}
	return false;
}

int mount_options_add(struct mount_options *options, const char *word)
{
	if (word_is_in(word, ignored_words, ARRAY_SIZE(ignored_words)))
		return 0;
	if (!word_is_in(word, passed_words, ARRAY_SIZE(passed_words)))
		return -ENOENT;
	if (strcmp(word, "allow_other") == 0)
		options->allow_other = true;
	if (strcmp(word, "default_permissions") == 0)
		options->default_permissions = true;
	if (strncmp(word, "fsname=", strlen("fsname=")) == 0)
		options->has_name = true;
	if (strcmp(word, "suid") == 0 || strcmp(word, "dev") == 0)
		options->wants_privileges = true;
	return fuse_opt_add_opt_escaped(&options->words, word) ? -ENOMEM : 0;
}

void mount_options_done(struct mount_options *options)
{
	free(options->words);
	options->words = NULL;
}
