#include "fs/request.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/cleanup.h"
#include "fs/control.h"
#include "fs/fs.h"
#include "fs/ops.h"

/* Take a terminated name off the body.  False: there is none. */
static bool request_take_name(struct request *request, size_t *at,
                              const char **ret_name)
{
	const char *start = request->body + *at;
	size_t left = request->body_size - *at;
	const char *end = memchr(start, '\0', left);

	if (!end)
		return false;
	*ret_name = start;
	*at += (size_t)(end - start) + 1;
	return true;
}

/* The request has the shape that its operation expects: structure, names,
 * payload. */
static bool request_decode(struct request *request)
{
	const struct operation *operation = request->operation;
	size_t at = operation->in_size;

	if (request->body_size < at)
		return false;
	request->in = request->body;
	for (unsigned i = 0; i < operation->names; i++) {
		if (!request_take_name(request, &at, &request->names[i]))
			return false;
	}
	request->payload = request->body + at;
	request->payload_size = request->body_size - at;
	return true;
}

static void request_run(struct task *task)
{
	struct request *request = container_of(task, struct request, task);

	request->operation->run(request);
}

static void request_run_control(struct task *task)
{
	control_serve(container_of(task, struct request, task));
}

static bool request_is_for_control(const struct request *request)
{
	uint64_t node_id = request->header.nodeid;

	if (!request->fs->control)
		return false;
	if (control_is_node(node_id))
		return true;
	return request->names[0] &&
	       control_is_name(request->fs, node_id, request->names[0]);
}

static void request_start(struct request *request)
{
	if (request_is_for_control(request)) {
		/* Its nodes are not counted. */
		if (request->header.opcode == FUSE_FORGET) {
			request_end(request);
			return;
		}
		request->task.run = request_run_control;
		lane_work(request->lane, LANE_QUICK, &request->task);
		return;
	}
	if (request->operation->on_lane) {
		request->operation->run(request);
		return;
	}
	request->task.run = request_run;
	lane_work(request->lane, LANE_BLOCKING, &request->task);
}

static bool request_has_reply(const struct request *request)
{
	return request->header.opcode != FUSE_FORGET &&
	       request->header.opcode != FUSE_BATCH_FORGET;
}

void request_dispatch(struct request *request)
{
	struct stats_block *stats = lane_stats(request->lane);

	stat_add(stats, requests, 1);
	request->names[0] = NULL;
	request->names[1] = NULL;
	request->operation = operation_find(request->header.opcode);
	if (!request->operation) {
		request_refuse(request);
		return;
	}
	if (request_decode(request)) {
		request_start(request);
		return;
	}
	stat_add(stats, requests_malformed, 1);
	if (request_has_reply(request))
		request_fail(request, -EINVAL);
	else
		request_end(request);
}

static int request_send_status(struct request *request, int error,
                               const struct iovec *vectors, size_t count)
{
	struct fuse_out_header header = {
		.len = sizeof(header),
		.error = error,
		.unique = request->header.unique,
	};

	assert(request_has_reply(request));
	for (size_t i = 0; i < count; i++)
		header.len += (uint32_t)vectors[i].iov_len;
	int err = request->transport->reply(request, &header, vectors, count);

	if (err < 0)
		stat_add(lane_stats(request->lane), reply_failures, 1);
	return err;
}

int request_send(struct request *request, const struct iovec *vectors,
                 size_t count)
{
	return request_send_status(request, 0, vectors, count);
}

int request_reply_vectors(struct request *request, const struct iovec *vectors,
                          size_t count)
{
	int err = request_send(request, vectors, count);

	request_end(request);
	return err;
}

int request_reply(struct request *request, const void *data, size_t size)
{
	struct iovec vector = {(void *)data, size};

	return request_reply_vectors(request, &vector, size > 0 ? 1 : 0);
}

static int request_translate(int error)
{
	switch (error) {
	case -EBADMSG: /* a damaged page: programs know EIO */
		return -EIO;
	case -ENOSYS: /* the kernel would never ask again on this mount */
		return -EOPNOTSUPP;
	default:
		return error;
	}
}

void request_fail(struct request *request, int error)
{
	assert(error < 0 && error > -4096);
	stat_add(lane_stats(request->lane), request_errors, 1);
	/* Whether the kernel still wants it makes no difference. */
	(void)request_send_status(request, request_translate(error), NULL, 0);
	request_end(request);
}

void request_finish(struct request *request, int error)
{
	if (error)
		request_fail(request, error);
	else
		(void)request_reply(request, NULL, 0);
}

void request_refuse(struct request *request)
{
	(void)request_send_status(request, -ENOSYS, NULL, 0);
	request_end(request);
}

void request_end(struct request *request)
{
	request->transport->release(request);
}
