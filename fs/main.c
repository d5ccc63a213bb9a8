/*
 * main.c - the command line, and the order of start and end
 *
 * Everything is opened before the mount, because afterwards a path may lead to
 * ourselves; the mount goes first at the end, so that nothing new arrives.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <syslog.h>
#include <unistd.h>

#include <fuse_opt.h>

#include "engine/cleanup.h"
#include "engine/log.h"
#include "fs/control.h"
#include "fs/daemon.h"
#include "fs/fs.h"
#include "fs/handle.h"
#include "fs/inode.h"
#include "fs/mount.h"
#include "fs/notify.h"
#include "fs/opening.h"
#include "fs/ops.h"
#include "fs/transport.h"

enum {
	EXIT_USAGE = 2,
	/* The kernel sends INIT at once; nothing on SOURCE is asked for it. */
	READY_TIMEOUT_MS = 10000,
	/* A request takes milliseconds, unless SOURCE hangs. */
	DRAIN_TIMEOUT_MS = 2000,
};

enum action { ACTION_MOUNT, ACTION_HELP, ACTION_VERSION };

struct command {
	enum action action;
	enum daemon_mode mode;
	char *source;
	char *point;
	struct options options;
	struct mount_options mount_options;
};

struct instance {
	struct fs fs;
	struct mount *mount;
	struct daemon daemon;
	bool has_ended;         /* there is no connection any more */
	atomic_bool is_refused; /* INIT failed, and the log says why */
};

/*
 * The command line
 */

static void print_options(void)
{
	char allowed[128];

	for (enum option_id id = 0; id < OPTION_COUNT; id++) {
		option_allowed(id, allowed, sizeof(allowed));
		printf("  %s=%s\n      %s%s\n      allowed: %s\n",
		       option_name(id), option_default(id), option_help(id),
		       option_when(id) == OPTION_LIVE ? " (live)" : "",
		       allowed);
	}
}

static void print_help(void)
{
	printf("usage: aheadfs [-f] [-o OPTION[=VALUE],...] SOURCE MOUNTPOINT\n"
	       "\n"
	       "Mount the directory SOURCE on MOUNTPOINT, which may be the "
	       "same, and serve\nits files from a cache that is read ahead, in "
	       "large and concurrent I/Os.\n"
	       "\n"
	       "  -f  stay in the foreground\n"
	       "  -h  print this help\n"
	       "  -V  print the version\n"
	       "  -o  ro, nosuid, nodev, noexec, allow_other, ... as mount(8), "
	       "and options of\n      aheadfs, here with their defaults; live "
	       "ones can be changed while mounted\n      by writing NAME=VALUE "
	       "to MOUNTPOINT/.aheadfs/config\n"
	       "\n");
	print_options();
}

/* One word of -o. */
static int command_option(struct command *command, const char *word)
{
	char reason[OPTIONS_REASON_BYTES];
	size_t length = strcspn(word, "=");
	auto_free char *name = strndup(word, length);
	const char *value = word[length] ? word + length + 1 : "";
	int err = name ? 0 : -ENOMEM;

	if (!err && options_is_name(name)) {
		err = options_set(&command->options, name, value, ORIGIN_MOUNT,
		                  reason);
		if (err)
			log_message(LOG_ERR, "%s", reason);
		return err;
	}
	if (!err)
		err = mount_options_add(&command->mount_options, word);
	if (err == -ENOENT)
		log_message(LOG_ERR, "unknown option %s: aheadfs -h lists all",
		            word);
	else if (err)
		log_message(LOG_ERR, "option %s: %s", word, strerror(-err));
	return err;
}

static int command_flag(struct command *command, const char *flag)
{
	if (strcmp(flag, "-f") == 0)
		command->mode = DAEMON_FOREGROUND;
	else if (strcmp(flag, "-h") == 0 || strcmp(flag, "--help") == 0)
		command->action = ACTION_HELP;
	else if (strcmp(flag, "-V") == 0 || strcmp(flag, "--version") == 0)
		command->action = ACTION_VERSION;
	else {
		log_message(LOG_ERR, "unknown option %s: aheadfs -h explains",
		            flag);
		return -EINVAL;
	}
	return 0;
}

static int command_path(struct command *command, const char *path)
{
	char **place = command->source ? &command->point : &command->source;

	if (*place) {
		log_message(LOG_ERR,
		            "one argument too many: %s (aheadfs -h explains)",
		            path);
		return -EINVAL;
	}
	*place = strdup(path);
	return *place ? 0 : -ENOMEM;
}

/* Called by fuse_opt_parse() for each path, flag, and word of -o: 0 when it is
 * dealt with, -1 when it is wrong. */
static int command_argument(void *data, const char *argument, int key,
                            struct fuse_args *rest)
{
	struct command *command = data;
	int err;

	if (key == FUSE_OPT_KEY_NONOPT)
		err = command_path(command, argument);
	else if (argument[0] == '-')
		err = command_flag(command, argument);
	else if (argument[0] == '\0')
		err = 0; /* an empty word, as in -o a,,b */
	else
		err = command_option(command, argument);
	return err ? -1 : 0;
}

static int command_parse(struct command *command, int argc, char **argv)
{
	static const struct fuse_opt no_templates[] = {FUSE_OPT_END};
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	int err =
		fuse_opt_parse(&args, command, no_templates, command_argument);

	fuse_opt_free_args(&args);
	if (err)
		return -EINVAL;
	if (command->action == ACTION_MOUNT && !command->point) {
		log_message(LOG_ERR, "SOURCE and MOUNTPOINT are needed: "
		                     "aheadfs -h explains");
		return -EINVAL;
	}
	options_clamp(&command->options);
	return 0;
}

static void command_done(struct command *command)
{
	options_done(&command->options);
	mount_options_done(&command->mount_options);
	free(command->source);
	free(command->point);
}

/*
 * Start
 */

static struct instance *instance_of(struct fs *fs)
{
	return container_of(fs, struct instance, fs);
}

static void instance_on_init(struct fs *fs, int error)
{
	struct instance *instance = instance_of(fs);

	if (error)
		atomic_store_explicit(&instance->is_refused, true,
		                      memory_order_relaxed);
	daemon_post(&instance->daemon, error ? DAEMON_END : DAEMON_READY);
}

static void instance_on_end(struct fs *fs)
{
	daemon_post(&instance_of(fs)->daemon, DAEMON_END);
}

static int failed_to(const char *what, int error)
{
	log_message(LOG_ERR, "cannot %s: %s", what, strerror(-error));
	return error;
}

static void raise_descriptor_limit(struct options *options)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (limit.rlim_max != RLIM_INFINITY)
		options_lower(options, OPTION_nofile, (int64_t)limit.rlim_max,
		              "the hard limit (ulimit -Hn)");
	limit.rlim_cur = (rlim_t)option_get(options, nofile);
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		log_message(LOG_WARNING,
		            "cannot raise the limit of open "
		            "files: %s",
		            strerror(errno));
}

/* What is needed before requests can come.  Errors are logged. */
static int instance_open_tables(struct fs *fs)
{
	fs->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fs->proc_fd < 0)
		return failed_to("open /proc/self/fd (is /proc mounted?)",
		                 -errno);

	int err = engine_open(fs->options, &fs->engine);

	if (err) /* the engine has named cause and remedy */
		return err;
	engine_observe(fs->engine, notify_file_changed, fs);
	err = inode_table_open(fs, &fs->inodes);
	if (err)
		return failed_to("read the source directory", err);
	err = handle_table_open(&fs->handles);
	if (err)
		return failed_to("make the table of open files", err);
	return control_open(fs, &fs->control);
}

static int instance_open(struct instance *instance, struct command *command)
{
	struct fs *fs = &instance->fs;
	int err = mount_open(command->source, command->point, &instance->mount);

	if (err)
		return err;
	fs->options = &command->options;
	fs->source_fd = instance->mount->source_fd;
	fs->mounter = getuid();
	fs->is_privileged = instance->mount->is_privileged;
	fs->on_init = instance_on_init;
	err = instance_open_tables(fs);
	if (err)
		return err;
	err = mount_start(instance->mount, &command->mount_options);
	if (err)
		return err;
	fs->fuse_fd = instance->mount->fuse_fd;
	fs->default_permissions = instance->mount->default_permissions;
	err = transport_dev_open(fs, instance_on_end, &fs->transport);
	return err ? failed_to("receive requests", err) : 0;
}

static int instance_wait_ready(struct instance *instance)
{
	switch (daemon_wait(&instance->daemon, READY_TIMEOUT_MS)) {
	case DAEMON_READY:
		return 0;
	case DAEMON_SIGNAL:
		return failed_to("mount", -EINTR);
	case DAEMON_TIMEOUT:
		return failed_to("mount: the kernel sends no INIT", -ETIMEDOUT);
	default:
		if (atomic_load_explicit(&instance->is_refused,
		                         memory_order_relaxed))
			return -EPROTO;
		instance->has_ended = true;
		return failed_to("mount: unmounted at once", -ENOTCONN);
	}
}

/*
 * End
 */

/*
 * Nothing of us is in use any more.  Programs that keep files open keep the
 * connection: they get a moment, and errors after it.  Requests that SOURCE
 * does not answer cannot be taken away from it: then the process just ends,
 * there is nothing of it worth saving.
 */
static void instance_drain(struct instance *instance, int status)
{
	struct fs *fs = &instance->fs;

	if (!instance->has_ended &&
	    daemon_wait(&instance->daemon, DRAIN_TIMEOUT_MS) != DAEMON_END &&
	    status == EXIT_SUCCESS)
		log_message(LOG_WARNING, "unmounted while in use: programs get "
		                         "errors from files still open");
	transport_dev_stop(fs->transport);

	unsigned left = transport_dev_drain(fs->transport, DRAIN_TIMEOUT_MS);

	if (left) {
		log_message(LOG_WARNING,
		            "unmounted with %u requests unanswered", left);
		_exit(status);
	}
	engine_quiesce(fs->engine);
}

/* What is open although the kernel sends no RELEASE any more. */
static void instance_close_handles(struct fs *fs)
{
	struct handle *handle;

	while ((handle = handle_next(fs->handles, NULL))) {
		switch ((enum handle_kind)handle->kind) {
		case HANDLE_FILE:
			opening_close(fs, handle);
			break;
		case HANDLE_DIRECTORY:
			directory_close(fs, handle);
			break;
		case HANDLE_CONTROL:
			control_release(fs, handle);
			break;
		case HANDLE_FREE:
			break;
		}
	}
}

static void instance_close(struct instance *instance, int status)
{
	struct fs *fs = &instance->fs;

	mount_stop(instance->mount);
	daemon_release_signals(&instance->daemon);
	if (fs->transport)
		instance_drain(instance, status);
	if (fs->handles)
		instance_close_handles(fs);
	transport_dev_close(fs->transport);
	control_close(fs->control);
	handle_table_close(fs->handles);
	inode_table_close(fs->inodes);
	engine_close(fs->engine);
	auto_close_fd(&fs->proc_fd);
	mount_close(instance->mount);
	daemon_close(&instance->daemon);
}

static int instance_run(struct command *command)
{
	struct instance instance = {
		.fs = {.source_fd = -1, .proc_fd = -1, .fuse_fd = -1}};
	int err = daemon_open(command->mode, &instance.daemon);

	if (err) {
		failed_to("start", err);
		return EXIT_FAILURE;
	}
	raise_descriptor_limit(&command->options);
	err = instance_open(&instance, command);
	if (!err)
		err = instance_wait_ready(&instance);
	if (!err) {
		mount_tune(instance.mount);
		daemon_detach(&instance.daemon);
		instance.has_ended = daemon_wait(&instance.daemon, -1) ==
		                     DAEMON_END;
	}

	int status = err ? EXIT_FAILURE : EXIT_SUCCESS;

	instance_close(&instance, status);
	return status;
}

int main(int argc, char **argv)
{
	struct command command = {.action = ACTION_MOUNT};
	int status = EXIT_SUCCESS;

	if (options_init(&command.options) < 0) {
		failed_to("start", -ENOMEM);
		return EXIT_FAILURE;
	}
	if (command_parse(&command, argc, argv) < 0)
		status = EXIT_USAGE;
	else if (command.action == ACTION_HELP)
		print_help();
	else if (command.action == ACTION_VERSION)
		printf("aheadfs %s\n", AHEADFS_VERSION);
	else
		status = instance_run(&command);
	command_done(&command);
	return status;
}
