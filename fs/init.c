#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <syslog.h>

#include "engine/cleanup.h"
#include "engine/log.h"
#include "fs/fs.h"
#include "fs/ops.h"
#include "fs/request.h"
#include "fs/transport.h"

enum {
	/* 7.31 is Linux 5.4. */
	INIT_MINOR_MIN = 31,
	/* The kernel's default of 12 starves readers that run ahead; it slows
	 * writers of dirty pages down from three quarters on. */
	INIT_BACKGROUND_MAX = 64,
	INIT_CONGESTION = 48,
};

/*
 * What we ask for, if the kernel offers it.  Left out on purpose:
 * AUTO_INVAL_DATA (a changed mtime would drop the kernel's cache after each of
 * our own writes), WRITEBACK_CACHE (a write would be acknowledged before SOURCE
 * has it), SPLICE_* (our replies are written from pages that stay ours), locks
 * (the kernel's own are right for one mount), SETXATTR_EXT (not served),
 * NO_OPEN_SUPPORT and NO_OPENDIR_SUPPORT (every open is ours to see).
 */
static const struct {
	uint64_t flag;
	const char *why;
} init_wanted[] = {
	{FUSE_INIT_EXT, "flags above bit 31"},
	{FUSE_ASYNC_READ, "several reads of one file at a time"},
	{FUSE_ASYNC_DIO, "the same for direct I/O"},
	{FUSE_BIG_WRITES, "writes of more than a page"},
	{FUSE_MAX_PAGES, "requests of 1 MiB"},
	{FUSE_ATOMIC_O_TRUNC, "truncation and open are one step"},
	{FUSE_PARALLEL_DIROPS, "lookups in one directory at a time"},
	{FUSE_DO_READDIRPLUS, "names come with attributes"},
	{FUSE_READDIRPLUS_AUTO, "but only where they are used"},
	{FUSE_CACHE_SYMLINKS, "links are read once"},
	{FUSE_EXPLICIT_INVAL_DATA, "we say when cached data is old"},
	{FUSE_DONT_MASK, "default ACLs of SOURCE replace the umask"},
	{FUSE_HANDLE_KILLPRIV_V2, "no getxattr before every write"},
	{FUSE_DIRECT_IO_ALLOW_MMAP, "shared maps of direct files"},
	{FUSE_NO_EXPORT_SUPPORT, "node ids mean nothing to NFS"},
};

/* Kernels before 5.17 send a shorter structure without flags2. */
static uint64_t init_offered(const struct request *request)
{
	const struct fuse_init_in *in = request->in;
	size_t needed =
		offsetof(struct fuse_init_in, flags2) + sizeof(in->flags2);
	uint64_t offered = in->flags;

	if ((offered & FUSE_INIT_EXT) && request->body_size >= needed)
		offered |= (uint64_t)in->flags2 << 32;
	return offered;
}

static uint64_t init_choose(const struct fs *fs, uint64_t offered)
{
	uint64_t wanted = 0;

	for (size_t i = 0; i < ARRAY_SIZE(init_wanted); i++)
		wanted |= init_wanted[i].flag;
	/* Whoever checks the mode must check the ACL as well; without
	 * default_permissions it is SOURCE that checks. */
	if (fs->default_permissions)
		wanted |= FUSE_POSIX_ACL;
	return wanted & offered;
}

static void init_remember(struct fs *fs, uint64_t flags)
{
	atomic_store_explicit(&fs->allows_direct_mmap,
	                      (flags & FUSE_DIRECT_IO_ALLOW_MMAP) != 0,
	                      memory_order_relaxed);
	atomic_store_explicit(&fs->kills_privileges,
	                      (flags & FUSE_HANDLE_KILLPRIV_V2) != 0,
	                      memory_order_relaxed);
}

static void init_accept(struct request *request)
{
	const struct fuse_init_in *in = request->in;
	struct fs *fs = request->fs;
	uint64_t flags = init_choose(fs, init_offered(request));
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = in->max_readahead,
		.flags = (uint32_t)flags,
		.flags2 = (uint32_t)(flags >> 32),
		.max_background = INIT_BACKGROUND_MAX,
		.congestion_threshold = INIT_CONGESTION,
		.max_write = TRANSPORT_WRITE_MAX,
		.max_pages = TRANSPORT_WRITE_MAX / 4096,
		.time_gran = 1,
	};

	/* Requests may come before we are back from the reply. */
	init_remember(fs, flags);

	int err = request_reply(request, &out, sizeof(out));

	if (err)
		log_message(LOG_ERR, "cannot answer the kernel's INIT: %s",
		            strerror(-err));
	fs->on_init(fs, err);
}

static void init_reject(struct request *request)
{
	const struct fuse_init_in *in = request->in;
	struct fs *fs = request->fs;

	log_message(LOG_ERR,
	            "the kernel speaks FUSE %u.%u, %u.%u (Linux 5.4) is needed",
	            in->major, in->minor, FUSE_KERNEL_VERSION, INIT_MINOR_MIN);
	request_fail(request, -EPROTO);
	fs->on_init(fs, -EPROTO);
}

void op_init(struct request *request)
{
	const struct fuse_init_in *in = request->in;

	if (in->major > FUSE_KERNEL_VERSION) {
		/* The kernel will ask again in our version. */
		struct fuse_init_out out = {
			.major = FUSE_KERNEL_VERSION,
			.minor = FUSE_KERNEL_MINOR_VERSION,
		};

		(void)request_reply(request, &out, sizeof(out));
		return;
	}
	if (in->major < FUSE_KERNEL_VERSION || in->minor < INIT_MINOR_MIN)
		init_reject(request);
	else
		init_accept(request);
}

/* Nothing waits here that could be interrupted.  The kernel remembers the
 * refusal and saves a request for each signal. */
void op_interrupt(struct request *request)
{
	request_refuse(request);
}

void op_destroy(struct request *request)
{
	request_finish(request, 0);
}
