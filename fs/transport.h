/*
 * transport.h - how requests arrive: /dev/fuse
 *
 * Each lane keeps a read armed on the session's descriptor in its ring; a
 * request that comes is decoded and run right there, and the reply is one
 * writev() from wherever the bytes lie.  Small requests are copied out of the
 * 1 MiB receive buffer, which is armed again at once; a large one (WRITE) takes
 * its buffer along.  When all buffers are taken, the lane stops fetching until
 * one comes back: that is the limit on memory of requests in flight.
 */
#ifndef FS_TRANSPORT_H
#define FS_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

struct fs;
struct transport_dev;

enum {
	/* Largest WRITE and READ: 256 pages, fs.fuse.max_pages_limit. */
	TRANSPORT_WRITE_MAX = 1 << 20,
};

/* Start fetching from @fs->fuse_fd on every lane.  -ENOMEM.  @on_end runs once
 * on some lane when the kernel has ended the connection. */
int transport_dev_open(struct fs *fs, void (*on_end)(struct fs *fs),
                       struct transport_dev **ret_transport);

/* Fetch no more requests: what the kernel still sends is aborted when the
 * session's descriptor is closed.  Returns when no lane reads any more. */
void transport_dev_stop(struct transport_dev *transport);

/* After transport_dev_stop(): wait until every request is answered, at most
 * @timeout_ms; then give up on the rest.  Returns how many were left. */
unsigned transport_dev_drain(struct transport_dev *transport,
                             unsigned timeout_ms);
void transport_dev_close(struct transport_dev *transport);

#endif
