/*
 * daemon.h - life as a process: background, signals, the end
 *
 * The process that the user started waits until the mount works, or failed,
 * and exits with the daemon's verdict; until then the daemon keeps the
 * terminal, so that error messages reach it.
 *
 *	daemon_open(DAEMON_BACKGROUND, &daemon);	the parent stays inside
 *	...start threads, which daemon_post() what happens...
 *	event = daemon_wait(&daemon, 10000);		DAEMON_READY
 *	daemon_detach(&daemon);				the parent exits with 0
 *	event = daemon_wait(&daemon, -1);		DAEMON_SIGNAL or _END
 *	daemon_release_signals(&daemon);
 *	...clean up; one more SIGTERM or SIGINT kills...
 */
#ifndef FS_DAEMON_H
#define FS_DAEMON_H

#include <stdbool.h>

enum daemon_mode { DAEMON_BACKGROUND, DAEMON_FOREGROUND };

/* In the order in which they are reported. */
enum daemon_event {
	DAEMON_SIGNAL, /* SIGTERM or SIGINT */
	DAEMON_END,    /* posted: nothing more to serve */
	DAEMON_READY,  /* posted: the mount works */
	DAEMON_EVENT_COUNT,
	DAEMON_TIMEOUT = DAEMON_EVENT_COUNT,
};

struct daemon {
	int parent_fd; /* end of the pipe to the parent, or -1 */
	int event_fds[DAEMON_EVENT_COUNT];
	bool is_signalled; /* the waiting thread's */
};

/*
 * Go on as a child in the background (before any thread exists), ignore the
 * signals that must not end a filesystem, and take SIGTERM and SIGINT as
 * events.  0 or -errno.
 */
int daemon_open(enum daemon_mode mode, struct daemon *ret_daemon);
void daemon_close(struct daemon *daemon);

/* Any thread.  @event is DAEMON_END or DAEMON_READY. */
void daemon_post(struct daemon *daemon, enum daemon_event event);

/* Wait for an event, at most @timeout_ms (-1: for ever).  Takes it away. */
enum daemon_event daemon_wait(struct daemon *daemon, int timeout_ms);

/* Leave terminal, directory and stderr, then let the parent exit with 0. */
void daemon_detach(struct daemon *daemon);

/* If a signal was the reason to end, the next one kills, as by default. */
void daemon_release_signals(const struct daemon *daemon);

#endif
