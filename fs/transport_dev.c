#include "fs/transport.h"

#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <syslog.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "engine/log.h"
#include "fs/fs.h"
#include "fs/request.h"

enum {
	/* The kernel wants room for the largest WRITE, always. */
	BUFFER_BYTES = TRANSPORT_WRITE_MAX + 4096,

	/* Large requests a lane may hold at a time, 1 MiB each. */
	BUFFERS_PER_LANE = 8,

	/* Requests up to this size leave the buffer: all but WRITE, long names
	 * and large attributes. */
	INLINE_BYTES = 512,

	/* Requests a lane may have in flight: more than that many blocked
	 * callers wait in the kernel. */
	SLOTS_MAX = 2048,
	SLOTS_AT_A_TIME = 16,

	/* How often draining looks. */
	DRAIN_STEP_US = 1000,
};

struct dev_buffer {
	struct dev_buffer *next;
	char *bytes;
};

struct dev_lane;

struct slot {
	struct request request;
	struct dev_lane *owner;
	struct dev_buffer *buffer; /* of a large request, else NULL */
	struct slot *next;
	_Alignas(16) char bytes[INLINE_BYTES];
};

struct slot_chunk {
	struct slot_chunk *next;
	struct slot slots[SLOTS_AT_A_TIME];
};

struct dev_lane {
	/* Set by transport_dev_open(), never changed. */
	struct transport_dev *transport;
	struct lane *lane;
	char *memory;
	struct dev_buffer buffers[BUFFERS_PER_LANE];

	/* Touched by the lane's own thread only. */
	struct dev_buffer *free_buffers;
	struct dev_buffer *fetching; /* the armed one */
	struct slot *free_slots;
	struct slot_chunk *chunks;
	unsigned slot_count;
	struct lane_event event;
	struct task start_task;
	struct task stop_task;
	bool is_stopping;

	/*
	 * Atomic: slots come back from any thread (release, acquired by the
	 * lane).  A lane that finds none sets is_stalled and looks again;
	 * whoever gives one back looks at is_stalled afterwards.  Both
	 * sequentially consistent: one of the two sees the other.
	 */
	_Atomic(struct slot *) returned;
	atomic_bool is_stalled;
	struct task resume_task;
};

struct transport_dev {
	/* Set by transport_dev_open(), never changed. */
	struct fs *fs;
	void (*on_end)(struct fs *fs);
	struct dev_lane *lanes;
	unsigned lane_count;

	/* Atomic, relaxed: a count to wait for, and a thing done once. */
	_Atomic(unsigned) in_flight;
	atomic_bool has_ended;

	/* Posted by each lane that has stopped. */
	sem_t stopped;
};

static void dev_fetch(struct dev_lane *dev);

static bool dev_add_slots(struct dev_lane *dev)
{
	if (dev->slot_count >= SLOTS_MAX)
		return false;
	struct slot_chunk *chunk = calloc(1, sizeof(*chunk));

	if (!chunk)
		return false;
	chunk->next = dev->chunks;
	dev->chunks = chunk;
	dev->slot_count += SLOTS_AT_A_TIME;
	for (unsigned i = 0; i < SLOTS_AT_A_TIME; i++) {
		struct slot *slot = &chunk->slots[i];

		slot->owner = dev;
		slot->next = dev->free_slots;
		dev->free_slots = slot;
	}
	return true;
}

/* Slots that other threads gave back, with their buffers. */
static void dev_collect(struct dev_lane *dev)
{
	struct slot *slot = atomic_exchange(&dev->returned, NULL);

	while (slot) {
		struct slot *next = slot->next;

		if (slot->buffer) {
			slot->buffer->next = dev->free_buffers;
			dev->free_buffers = slot->buffer;
			slot->buffer = NULL;
		}
		slot->next = dev->free_slots;
		dev->free_slots = slot;
		slot = next;
	}
}

static bool dev_is_ready(struct dev_lane *dev)
{
	dev_collect(dev);
	return dev->free_buffers && (dev->free_slots || dev_add_slots(dev));
}

/* Arm the read for the next request, if there is room for one. */
static void dev_fetch(struct dev_lane *dev)
{
	assert(!dev->fetching);
	if (dev->is_stopping)
		return;
	if (!dev_is_ready(dev)) {
		atomic_store(&dev->is_stalled, true);
		if (!dev_is_ready(dev))
			return;
		/* Somebody may have seen the flag: then resuming is theirs. */
		if (!atomic_exchange(&dev->is_stalled, false))
			return;
	}
	dev->fetching = dev->free_buffers;
	dev->free_buffers = dev->fetching->next;
	lane_read(dev->lane, dev->transport->fs->fuse_fd, dev->fetching->bytes,
	          BUFFER_BYTES, &dev->event);
}

static void dev_resume(struct task *task)
{
	dev_fetch(container_of(task, struct dev_lane, resume_task));
}

static void dev_release(struct request *request)
{
	struct slot *slot = container_of(request, struct slot, request);
	struct dev_lane *dev = slot->owner;
	struct transport_dev *transport = dev->transport;
	struct slot *head = atomic_load(&dev->returned);

	do {
		slot->next = head;
	} while (!atomic_compare_exchange_weak(&dev->returned, &head, slot));
	if (atomic_exchange(&dev->is_stalled, false))
		lane_post(dev->lane, &dev->resume_task);
	/* Last: after it, the transport may be gone. */
	atomic_fetch_sub(&transport->in_flight, 1);
}

static int dev_reply(struct request *request, struct fuse_out_header *header,
                     const struct iovec *vectors, size_t count)
{
	struct iovec all[READ_PAGES_MAX + 1];

	assert(count <= READ_PAGES_MAX);
	all[0] = (struct iovec){header, sizeof(*header)};
	if (count > 0)
		memcpy(&all[1], vectors, count * sizeof(*vectors));
	ssize_t n = writev(request->fs->fuse_fd, all, (int)count + 1);

	if (n < 0)
		return -errno;
	assert((size_t)n == header->len);
	return 0;
}

static const struct transport dev_transport = {
	.reply = dev_reply,
	.release = dev_release,
};

/* A request of @size bytes has arrived in the armed buffer. */
static void dev_receive(struct dev_lane *dev, size_t size)
{
	struct slot *slot = dev->free_slots;
	struct dev_buffer *buffer = dev->fetching;
	struct request *request = &slot->request;
	size_t body_size = size - sizeof(request->header);

	dev->free_slots = slot->next;
	dev->fetching = NULL;
	memcpy(&request->header, buffer->bytes, sizeof(request->header));
	request->fs = dev->transport->fs;
	request->lane = dev->lane;
	request->transport = &dev_transport;
	request->body_size = body_size;
	if (body_size <= INLINE_BYTES) {
		memcpy(slot->bytes, buffer->bytes + sizeof(request->header),
		       body_size);
		request->body = slot->bytes;
		buffer->next = dev->free_buffers;
		dev->free_buffers = buffer;
	} else {
		request->body = buffer->bytes + sizeof(request->header);
		slot->buffer = buffer;
	}
	atomic_fetch_add(&dev->transport->in_flight, 1);
	request_dispatch(request);
}

/* The armed read is over and brought nothing. */
static void dev_disarm(struct dev_lane *dev)
{
	dev->fetching->next = dev->free_buffers;
	dev->free_buffers = dev->fetching;
	dev->fetching = NULL;
}

static void dev_end(struct dev_lane *dev)
{
	struct transport_dev *transport = dev->transport;

	dev_disarm(dev);
	if (!atomic_exchange(&transport->has_ended, true))
		transport->on_end(transport->fs);
}

/* No more requests from this lane: the kernel has ended the connection
 * (ENODEV is how an unmount looks from here), or we stop. */
static void dev_fail(struct dev_lane *dev, int result)
{
	if (dev->is_stopping) {
		dev_disarm(dev);
		sem_post(&dev->transport->stopped);
		return;
	}
	if (result != -ENODEV)
		log_message(LOG_ERR, "reading requests: %s", strerror(-result));
	dev_end(dev);
}

static bool dev_is_transient(int result)
{
	/* ENOENT: the request was interrupted while it was copied. */
	return result == -EINTR || result == -EAGAIN || result == -ENOENT ||
	       result == -ENOMEM;
}

static void dev_stop(struct task *task)
{
	struct dev_lane *dev = container_of(task, struct dev_lane, stop_task);

	dev->is_stopping = true;
	if (dev->fetching)
		lane_cancel(dev->lane, &dev->event);
	else
		sem_post(&dev->transport->stopped);
}

static void dev_arrived(struct lane_event *event, int result)
{
	struct dev_lane *dev = container_of(event, struct dev_lane, event);
	const struct fuse_in_header *header =
		(const void *)dev->fetching->bytes;

	if (result >= (int)sizeof(*header) && header->len == (uint32_t)result) {
		dev_receive(dev, (size_t)result);
	} else if (result >= 0) {
		stat_add(lane_stats(dev->lane), requests_malformed, 1);
		dev_disarm(dev);
	} else if (dev_is_transient(result)) {
		dev_disarm(dev);
	} else {
		dev_fail(dev, result);
		return;
	}
	if (dev->is_stopping)
		sem_post(&dev->transport->stopped);
	else
		dev_fetch(dev);
}

static void dev_start(struct task *task)
{
	dev_fetch(container_of(task, struct dev_lane, start_task));
}

static int dev_lane_open(struct dev_lane *dev, struct transport_dev *transport,
                         struct lane *lane)
{
	size_t size = (size_t)BUFFERS_PER_LANE * BUFFER_BYTES;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -ENOMEM;
	dev->transport = transport;
	dev->lane = lane;
	dev->memory = memory;
	dev->event.done = dev_arrived;
	dev->start_task.run = dev_start;
	dev->stop_task.run = dev_stop;
	dev->resume_task.run = dev_resume;
	for (unsigned i = 0; i < BUFFERS_PER_LANE; i++) {
		struct dev_buffer *buffer = &dev->buffers[i];

		buffer->bytes = dev->memory + (size_t)i * BUFFER_BYTES;
		buffer->next = dev->free_buffers;
		dev->free_buffers = buffer;
	}
	return 0;
}

static void dev_lane_close(struct dev_lane *dev)
{
	if (dev->memory)
		munmap(dev->memory, (size_t)BUFFERS_PER_LANE * BUFFER_BYTES);
	while (dev->chunks) {
		struct slot_chunk *next = dev->chunks->next;

		free(dev->chunks);
		dev->chunks = next;
	}
}

AUTO_DEFINE(transport_dev, struct transport_dev, transport_dev_close)

int transport_dev_open(struct fs *fs, void (*on_end)(struct fs *fs),
                       struct transport_dev **ret_transport)
{
	unsigned count = engine_lane_count(fs->engine);
	AUTO(transport_dev)
	struct transport_dev *transport = calloc(1, sizeof(*transport));

	if (!transport)
		return -ENOMEM;
	transport->fs = fs;
	transport->on_end = on_end;
	sem_init(&transport->stopped, 0, 0);
	transport->lanes = calloc(count, sizeof(*transport->lanes));
	if (!transport->lanes)
		return -ENOMEM;
	transport->lane_count = count;
	for (unsigned i = 0; i < count; i++) {
		int err = dev_lane_open(&transport->lanes[i], transport,
		                        engine_lane(fs->engine, i));
		if (err < 0)
			return err;
	}
	/* Requests may come as soon as the first lane fetches. */
	*ret_transport = transport;
	for (unsigned i = 0; i < count; i++)
		lane_post(transport->lanes[i].lane,
		          &transport->lanes[i].start_task);
	(void)steal_ptr(&transport);
	return 0;
}

void transport_dev_stop(struct transport_dev *transport)
{
	for (unsigned i = 0; i < transport->lane_count; i++)
		lane_post(transport->lanes[i].lane,
		          &transport->lanes[i].stop_task);
	for (unsigned i = 0; i < transport->lane_count; i++) {
		while (sem_wait(&transport->stopped) < 0)
			assert(errno == EINTR);
	}
}

unsigned transport_dev_drain(struct transport_dev *transport,
                             unsigned timeout_ms)
{
	uint64_t steps = (uint64_t)timeout_ms * 1000 / DRAIN_STEP_US;

	while (atomic_load(&transport->in_flight) > 0 && steps-- > 0)
		(void)usleep(DRAIN_STEP_US);
	return atomic_load(&transport->in_flight);
}

void transport_dev_close(struct transport_dev *transport)
{
	if (!transport)
		return;
	for (unsigned i = 0; i < transport->lane_count; i++)
		dev_lane_close(&transport->lanes[i]);
	sem_destroy(&transport->stopped);
	free(transport->lanes);
	free(transport);
}
