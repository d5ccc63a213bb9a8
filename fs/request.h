/*
 * request.h - one request: checked and decoded in, exactly one reply out
 *
 * A transport fills the raw part of a request and calls request_dispatch().
 * The operation table (ops.h) knows the shape of every operation: a structure,
 * then names, then a payload.  request_dispatch() checks that shape, so an
 * operation never looks at a length: its structure is complete, its names are
 * terminated, and payload_size is what really came.
 *
 *	static void op_mkdir(struct request *request)
 *	{
 *		const struct fuse_mkdir_in *in = request->in;
 *		...
 *		request_reply(request, &out, sizeof(out));
 *	}
 *
 * Every operation replies exactly once, on any thread.  After its reply the
 * request is gone, and the kernel may have forgotten the inode: touch neither,
 * and hold no lock while replying.
 */
#ifndef FS_REQUEST_H
#define FS_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "engine/file.h"
#include "engine/lane.h"
#include "fs/wire.h"

struct fs;
struct operation;
struct request;

struct transport {
	/* Send @header and @vectors as the reply.  0, or -ENOENT: the kernel
	 * no longer wants it and took no reference from it; or -errno. */
	int (*reply)(struct request *request, struct fuse_out_header *header,
	             const struct iovec *vectors, size_t count);

	/* The request is answered (or needs no answer): take it back. */
	void (*release)(struct request *request);
};

struct request {
	/* Set by the transport. */
	struct fs *fs;
	struct lane *lane;
	const struct transport *transport;
	struct fuse_in_header header; /* uid, gid, pid, nodeid, unique */
	const char *body;             /* what follows the header */
	size_t body_size;

	/* Set by request_dispatch() from the operation table. */
	const struct operation *operation;
	const void *in;       /* the operation's structure */
	const char *names[2]; /* terminated; NULL if it takes none */
	const char *payload;  /* WRITE data, xattr value, forget list */
	size_t payload_size;

	/* Free for the operation while it lives. */
	struct task task;
	struct read read;
};

/* Check, decode and run a request: on this lane, or on a worker if the
 * operation may block. */
void request_dispatch(struct request *request);

/*
 * The replies.  0 or -ENOENT as in struct transport: whoever gave the kernel a
 * reference (a lookup count, an open file) in a reply that failed must take it
 * back.
 */
int request_reply(struct request *request, const void *data, size_t size);
int request_reply_vectors(struct request *request, const struct iovec *vectors,
                          size_t count);

/*
 * Send the reply without giving the request back: for an operation whose bytes
 * lie in the request itself, or in what the request holds on to.  Result as
 * above.  request_end() must follow, and is the last to touch the request:
 *
 *	request_send(request, vectors, count);
 *	read_release(&request->read);
 *	request_end(request);
 */
int request_send(struct request *request, const struct iovec *vectors,
                 size_t count);

/* Reply with an error, @error negative: translated for applications.  A
 * damaged page (-EBADMSG) is EIO; an ENOSYS of SOURCE, which the kernel would
 * remember for the whole mount, becomes EOPNOTSUPP. */
void request_fail(struct request *request, int error);

/* @error 0: an empty success; else request_fail(). */
void request_finish(struct request *request, int error);

/* ENOSYS on purpose: the kernel falls back and does not ask again. */
void request_refuse(struct request *request);

/* Give the request back without a reply: after request_send(), and for FORGET
 * and its like, which get none. */
void request_end(struct request *request);

#endif
