#include "fs/inode.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine.h"
#include "fs/fs.h"
#include "fs/inode_private.h"

static struct inode_private **bucket_of_node(struct inode_table *table,
                                             uint64_t node_id)
{
	return &table->by_node[node_id % TABLE_BUCKETS];
}

static struct inode_private **bucket_of_key(struct inode_table *table,
                                            const struct file_key *key)
{
	const uint64_t golden = 0x9e3779b97f4a7c15;
	uint64_t hash = key->inode * golden;

	hash = (hash ^ (hash >> 32) ^ key->birth) * golden;
	hash = (hash ^ (hash >> 32) ^ key->device) * golden;
	return &table->by_key[hash >> (64 - TABLE_SHIFT)];
}

static struct inode_private *find_node_locked(struct inode_table *table,
                                              uint64_t node_id)
{
	struct inode_private *found = *bucket_of_node(table, node_id);

	assert(lock_is_held(&table->lock));
	while (found && found->inode.node_id != node_id)
		found = found->next_by_node;
	return found;
}

static bool key_is_equal(const struct file_key *a, const struct file_key *b)
{
	return a->inode == b->inode && a->birth == b->birth &&
	       a->device == b->device;
}

static struct inode_private *find_key_locked(struct inode_table *table,
                                             const struct file_key *key)
{
	struct inode_private *found = *bucket_of_key(table, key);

	assert(lock_is_held(&table->lock));
	while (found && !key_is_equal(&found->inode.key, key))
		found = found->next_by_key;
	return found;
}

static void table_add_locked(struct inode_table *table,
                             struct inode_private *private)
{
	struct inode *inode = &private->inode;
	struct inode_private **bucket;

	assert(lock_is_held(&table->lock));
	inode->node_id = table->next_node_id++;
	bucket = bucket_of_node(table, inode->node_id);
	private->next_by_node = *bucket;
	*bucket = private;
	bucket = bucket_of_key(table, &inode->key);
	private->next_by_key = *bucket;
	*bucket = private;
	table->count++;
}

static void table_remove_locked(struct inode_table *table,
                                struct inode_private *private)
{
	struct inode *inode = &private->inode;
	struct inode_private **link;

	assert(lock_is_held(&table->lock));
	link = bucket_of_node(table, inode->node_id);
	while (*link != private)
		link = &(*link)->next_by_node;
	*link = private->next_by_node;
	link = bucket_of_key(table, &inode->key);
	while (*link != private)
		link = &(*link)->next_by_key;
	*link = private->next_by_key;
	table->count--;
}

/* The inode of @key with a reference and @lookups more, or NULL. */
static struct inode *table_take(struct inode_table *table,
                                const struct file_key *key, uint64_t lookups)
{
	scoped_lock(&table->lock);
	struct inode_private *found = find_key_locked(table, key);

	if (!found)
		return NULL;
	found->references++;
	found->lookup_count += lookups;
	return &found->inode;
}

/* As table_take(), but @fresh becomes the inode if there is none. */
static struct inode *table_insert(struct inode_table *table,
                                  struct inode_private *fresh, uint64_t lookups)
{
	scoped_lock(&table->lock);
	struct inode_private *found = find_key_locked(table, &fresh->inode.key);

	if (!found) {
		table_add_locked(table, fresh);
		found = fresh;
	}
	found->references++;
	found->lookup_count += lookups;
	return &found->inode;
}

/* Lower the counts; true if nobody knows the inode now and it left the
 * table. */
static bool table_drop_locked(struct inode_table *table,
                              struct inode_private *private,
                              uint64_t references, uint64_t lookups)
{
	assert(lock_is_held(&table->lock));
	assert(private->references >= references);
	private->references -= references;
	/* The kernel's count is the kernel's word: believe it, but not more
	 * than there is. */
	if (lookups > private->lookup_count)
		lookups = private->lookup_count;
	private->lookup_count -= lookups;
	if (private->references || private->lookup_count ||
	    private->inode.node_id == FUSE_ROOT_ID)
		return false;
	table_remove_locked(table, private);
	return true;
}

static void inode_destroy(struct inode_private *private)
{
	if (private->last_fd >= 0)
		close(private->last_fd);
	lock_done(&private->inode.open_lock);
	free(private);
}

static void inode_destroy_task(struct task *task)
{
	inode_destroy(container_of(task, struct inode_private, task));
}

/* The inode has left the table.  Often on a lane: a FORGET. */
static void inode_free(struct inode_table *table, struct inode_private *private)
{
	struct engine *engine = table->fs->engine;
	uint64_t node_id = private->inode.node_id;

	assert(private->inode.open_count == 0);
	private->last_fd =
		descriptor_retire(table->descriptors, &private->descriptor);
	if (!private->descriptor.keeps) {
		inode_destroy(private);
		return;
	}
	/* It lost its last name: closing it frees its blocks, and a large file
	 * has many. */
	private->task.run = inode_destroy_task;
	lane_work(engine_lane(engine, node_id % engine_lane_count(engine)),
	          LANE_BLOCKING, &private->task);
}

/* An inode outside of the table, reached by @fd, which it takes over. */
static struct inode_private *inode_new(struct inode_table *table, int fd,
                                       const struct file_key *key, mode_t mode)
{
	auto_close int owned = fd;
	struct inode_private *private = calloc(1, sizeof(*private));
	struct file_handle *handle = NULL;

	if (!private)
		return NULL;
	private->last_fd = -1;
	private->inode.table = table;
	private->inode.key = *key;
	private->inode.type = mode & S_IFMT;
	private->inode.private = private;
	lock_init(&private->inode.open_lock);

	/* Handles are of the filesystem of the root only. */
	if (key->device == table->root_device)
		handle = descriptor_encode(table->descriptors, fd);
	descriptor_init(&private->descriptor, handle);
	(void)descriptor_give(table->descriptors, &private->descriptor,
	                      steal_fd(&owned));
	descriptor_put(table->descriptors, &private->descriptor);
	return private;
}

/* Add the inode of @fd, which is taken over, unless somebody just did. */
static struct inode *inode_make(struct inode_table *table, int fd,
                                const struct file_key *key, mode_t mode,
                                uint64_t lookups)
{
	struct inode_private *fresh = inode_new(table, fd, key, mode);
	struct inode *inode;

	if (!fresh)
		return NULL;
	inode = table_insert(table, fresh, lookups);
	if (inode != &fresh->inode)
		inode_free(table, fresh);
	return inode;
}

/* The inode of the O_PATH descriptor @fd, which is taken over. */
static int inode_take(struct inode_table *table, int fd, uint64_t lookups,
                      struct inode **ret_inode, struct statx *ret_stat)
{
	auto_close int owned = fd;
	struct file_key key;
	struct statx stat;
	struct inode *inode;
	int err;

	err = inode_identify(fd, &key, &stat);
	if (err)
		return err;
	inode = table_take(table, &key, lookups);
	if (inode) {
		struct descriptor *descriptor = &inode->private->descriptor;

		/* Who looks a file up will soon use it. */
		(void)descriptor_give(table->descriptors, descriptor,
		                      steal_fd(&owned));
		descriptor_put(table->descriptors, descriptor);
	} else {
		inode = inode_make(table, steal_fd(&owned), &key, stat.stx_mode,
		                   lookups);
		if (!inode)
			return -ENOMEM;
	}
	*ret_inode = inode;
	*ret_stat = stat;
	return 0;
}

int inode_table_open(struct fs *fs, struct inode_table **ret_table)
{
	struct inode_table *table = calloc(1, sizeof(*table));
	struct statx stat;
	struct inode *root;
	int err;
	int fd;

	if (!table)
		return -ENOMEM;
	lock_init(&table->lock);
	table->fs = fs;
	table->next_node_id = FUSE_ROOT_ID;
	/* Until the root is made: its descriptor stays open. */
	table->root_device = UINT64_MAX;

	err = descriptor_cache_open(fs->source_fd, &table->descriptors);
	if (!err) {
		fd = fcntl(fs->source_fd, F_DUPFD_CLOEXEC, 0);
		err = fd < 0 ? -errno : inode_take(table, fd, 1, &root, &stat);
	}
	if (err) {
		inode_table_close(table);
		return err;
	}
	table->root_device = root->key.device;
	assert(root->node_id == FUSE_ROOT_ID);
	inode_put(root);
	*ret_table = table;
	return 0;
}

void inode_table_close(struct inode_table *table)
{
	struct inode_private *private;

	if (!table)
		return;
	for (size_t i = 0; i < TABLE_BUCKETS; i++) {
		while ((private = table->by_node[i])) {
			assert(private->references == 0);
			table->by_node[i] = private->next_by_node;
			private->last_fd = descriptor_retire(
				table->descriptors, &private->descriptor);
			inode_destroy(private);
		}
	}
	descriptor_cache_close(table->descriptors);
	lock_done(&table->lock);
	free(table);
}

uint64_t inode_table_count(struct inode_table *table)
{
	scoped_lock(&table->lock);
	return table->count;
}

uint64_t inode_node(struct inode_table *table, const struct file_key *key)
{
	scoped_lock(&table->lock);
	const struct inode_private *found = find_key_locked(table, key);

	return found ? found->inode.node_id : 0;
}

struct inode *inode_find(struct inode_table *table, uint64_t node_id)
{
	scoped_lock(&table->lock);
	struct inode_private *found = find_node_locked(table, node_id);

	if (!found)
		return NULL;
	found->references++;
	return &found->inode;
}

static bool table_put(struct inode_table *table, struct inode_private *private)
{
	scoped_lock(&table->lock);
	assert(private->references > 0);
	return table_drop_locked(table, private, 1, 0);
}

void inode_put(struct inode *inode)
{
	if (inode && table_put(inode->table, inode->private))
		inode_free(inode->table, inode->private);
}

/* The inode if it is to be freed, else NULL. */
static struct inode_private *table_forget(struct inode_table *table,
                                          uint64_t node_id, uint64_t count)
{
	scoped_lock(&table->lock);
	struct inode_private *found = find_node_locked(table, node_id);

	if (!found || !table_drop_locked(table, found, 0, count))
		return NULL;
	return found;
}

void inode_forget(struct inode_table *table, uint64_t node_id, uint64_t count)
{
	struct inode_private *unknown = table_forget(table, node_id, count);

	if (unknown)
		inode_free(table, unknown);
}

int inode_lookup(struct inode *parent, const char *name,
                 struct inode **ret_inode, struct statx *ret_stat)
{
	int fd = inode_open_child(parent, name);

	if (fd < 0)
		return fd;
	return inode_take(parent->table, fd, 1, ret_inode, ret_stat);
}

struct inode *inode_peek(struct inode *parent, const char *name)
{
	auto_close int fd = inode_open_child(parent, name);
	struct file_key key;
	struct statx stat;

	if (fd < 0 || inode_identify(fd, &key, &stat))
		return NULL;
	return table_take(parent->table, &key, 0);
}

int inode_adopt(struct inode_table *table, int fd, struct inode **ret_inode,
                struct statx *ret_stat)
{
	/* Not a duplicate: that would hold the file open for writing. */
	int own_fd = inode_table_reopen(table, fd, O_PATH);

	if (own_fd < 0)
		return own_fd;
	return inode_take(table, own_fd, 1, ret_inode, ret_stat);
}
