#include "fs/notify.h"

#include <stdlib.h>
#include <sys/uio.h>

#include "engine/cleanup.h"
#include "engine/lane.h"
#include "fs/fs.h"
#include "fs/inode.h"
#include "fs/wire.h"

struct notification {
	struct task task;
	struct fs *fs;
	uint64_t node_id;
};

static void notify_run(struct task *task)
{
	struct notification *notification =
		container_of(task, struct notification, task);
	/* Everything from offset 0 on: a length of 0 has no end. */
	struct fuse_notify_inval_inode_out body = {
		.ino = notification->node_id,
	};
	struct fuse_out_header header = {
		.len = sizeof(header) + sizeof(body),
		.error = FUSE_NOTIFY_INVAL_INODE,
	};
	struct iovec vectors[] = {
		{.iov_base = &header, .iov_len = sizeof(header)},
		{.iov_base = &body, .iov_len = sizeof(body)},
	};

	/* It may fail, and well: the kernel has forgotten the inode, or the
	 * mount is gone; then nothing old is cached either. */
	(void)writev(notification->fs->fuse_fd, vectors, ARRAY_SIZE(vectors));
	free(notification);
}

void notify_file_changed(void *context, const struct file_key *key)
{
	struct fs *fs = context;
	uint64_t node_id = inode_node(fs->inodes, key);
	struct notification *notification;

	if (!node_id)
		return;
	notification = malloc(sizeof(*notification));
	if (!notification)
		return;
	notification->task = (struct task){.run = notify_run};
	notification->fs = fs;
	notification->node_id = node_id;
	lane_work(engine_lane(fs->engine, 0), LANE_ASIDE, &notification->task);
}
