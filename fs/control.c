#include "fs/control.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "engine/lock.h"
#include "engine/log.h"
#include "fs/control_node.h"
#include "fs/fs.h"
#include "fs/handle.h"
#include "fs/inode.h"
#include "fs/request.h"

enum {
	CONTROL_DIRECTORY_MODE = S_IFDIR | 0555,
};

struct control {
	/* Set by control_open(), never changed. */
	char name[NAME_MAX + 1];
	gid_t group;

	/* Held while an option is set and the rest brought in line with it. */
	struct lock config_lock;
};

/*
 * The virtual files
 */

static uint64_t control_stat(struct fs *fs, enum stat_id id)
{
	switch (id) {
	case STAT_inodes:
		return inode_table_count(fs->inodes);
	case STAT_open_files:
		return handle_count(fs->handles, HANDLE_FILE);
	default:
		return engine_stat(fs->engine, id);
	}
}

static void stats_print(struct fs *fs, FILE *stream)
{
	for (enum stat_id id = 0; id < STAT_COUNT; id++)
		fprintf(stream, "%s %" PRIu64 "\n", stat_name(id),
		        control_stat(fs, id));
}

static void stats_json_print(struct fs *fs, FILE *stream)
{
	fprintf(stream, "{\"version\":1");
	for (enum stat_id id = 0; id < STAT_COUNT; id++)
		fprintf(stream, ",\"%s\":%" PRIu64, stat_name(id),
		        control_stat(fs, id));
	fprintf(stream, "}\n");
}

static void config_print(struct fs *fs, FILE *stream)
{
	char value[PATH_MAX];

	for (enum option_id id = 0; id < OPTION_COUNT; id++) {
		enum option_origin origin = atomic_load_explicit(
			&fs->options->origin[id], memory_order_relaxed);

		option_format(fs->options, id, value, sizeof(value));
		fprintf(stream, "%s=%s %s %s\n", option_name(id), value,
		        option_origin_word(origin),
		        option_when(id) == OPTION_LIVE ? "live" : "fixed");
	}
}

static int config_set(struct fs *fs, const char *name, const char *value,
                      char *ret_reason)
{
	scoped_lock(&fs->control->config_lock);
	int err =
		options_set(fs->options, name, value, ORIGIN_LIVE, ret_reason);

	if (err)
		return err;
	options_clamp(fs->options);
	engine_apply_options(fs->engine);
	return 0;
}

/* The writer sees an errno; the reason goes to the log. */
static int config_write(struct fs *fs, char *line)
{
	char reason[OPTIONS_REASON_BYTES];
	char *value = strchr(line, '=');

	if (!value) {
		log_message(LOG_WARNING, "config: NAME=VALUE is expected");
		return -EINVAL;
	}
	*value++ = '\0';

	int err = config_set(fs, line, value, reason);

	if (err)
		log_message(LOG_WARNING, "config: %s", reason);
	return err;
}

static void inflight_print(struct fs *fs, FILE *stream)
{
	engine_print_inflight(fs->engine, stream);
}

static const struct control_file control_files[] = {
	{"stats", 0444, stats_print, NULL},
	{"stats.json", 0444, stats_json_print, NULL},
	{"config", 0644, config_print, config_write},
	{"inflight", 0400, inflight_print, NULL},
};

/*
 * Nodes
 */

size_t control_file_count(void)
{
	return ARRAY_SIZE(control_files);
}

const struct control_file *control_file(size_t index)
{
	assert(index < ARRAY_SIZE(control_files));
	return &control_files[index];
}

bool control_is_node(uint64_t node_id)
{
	return node_id >= CONTROL_NODE_ROOT;
}

bool control_is_name(const struct fs *fs, uint64_t parent_id, const char *name)
{
	return fs->control && parent_id == FUSE_ROOT_ID &&
	       strcmp(name, fs->control->name) == 0;
}

const struct control_file *control_node_file(uint64_t node_id)
{
	uint64_t index = node_id - CONTROL_NODE_ROOT - 1;

	if (node_id <= CONTROL_NODE_ROOT || index >= control_file_count())
		return NULL;
	return &control_files[index];
}

uint64_t control_file_node(size_t index)
{
	assert(index < control_file_count());
	return CONTROL_NODE_ROOT + 1 + index;
}

static mode_t node_mode(uint64_t node_id)
{
	const struct control_file *file = control_node_file(node_id);

	return file ? S_IFREG | file->mode : CONTROL_DIRECTORY_MODE;
}

bool control_may(const struct request *request, int access)
{
	mode_t mode = node_mode(request->header.nodeid);
	uid_t uid = request->header.uid;

	if (uid == 0 || uid == request->fs->mounter)
		mode >>= 6;
	return ((mode_t)access & ~mode & 7) == 0;
}

void control_attributes(const struct fs *fs, uint64_t node_id,
                        struct fuse_attr *ret_attributes)
{
	struct timespec now;
	bool is_directory = node_id == CONTROL_NODE_ROOT;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	*ret_attributes = (struct fuse_attr){
		.ino = node_id,
		.mode = node_mode(node_id),
		.nlink = is_directory ? 2 : 1,
		.uid = fs->mounter,
		.gid = fs->control->group,
		.blksize = 4096,
		.atime = (uint64_t)now.tv_sec,
		.mtime = (uint64_t)now.tv_sec,
		.ctime = (uint64_t)now.tv_sec,
		.atimensec = (uint32_t)now.tv_nsec,
		.mtimensec = (uint32_t)now.tv_nsec,
		.ctimensec = (uint32_t)now.tv_nsec,
	};
}

void control_entry(const struct fs *fs, uint64_t node_id,
                   struct fuse_entry_out *ret_entry)
{
	*ret_entry = (struct fuse_entry_out){
		.nodeid = node_id,
		.entry_valid = CONTROL_VALID_SECONDS,
		.attr_valid = CONTROL_VALID_SECONDS,
	};
	control_attributes(fs, node_id, &ret_entry->attr);
}

/*
 * Start and end
 */

static int name_check(const struct fs *fs, const char *name)
{
	struct stat stat_buffer;

	if (strchr(name, '/') || strlen(name) > NAME_MAX ||
	    strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		log_message(LOG_ERR,
		            "control=%s is not valid: allowed is a "
		            "name without /, or off",
		            name);
		return -EINVAL;
	}
	if (fstatat(fs->source_fd, name, &stat_buffer, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	log_message(LOG_ERR,
	            "the source has a file %s of its own: use -o control=OTHER "
	            "or -o control=off",
	            name);
	return -EEXIST;
}

int control_open(struct fs *fs, struct control **ret_control)
{
	const char *name = fs->options->control;

	if (strcmp(name, "off") == 0) {
		*ret_control = NULL;
		return 0;
	}

	int err = name_check(fs, name);

	if (err)
		return err;

	struct control *control = calloc(1, sizeof(*control));

	if (!control) {
		log_message(LOG_ERR, "cannot make the control directory: %s",
		            strerror(ENOMEM));
		return -ENOMEM;
	}
	strcpy(control->name, name);
	control->group = getgid();
	lock_init(&control->config_lock);
	*ret_control = control;
	return 0;
}

void control_close(struct control *control)
{
	if (!control)
		return;
	lock_done(&control->config_lock);
	free(control);
}
