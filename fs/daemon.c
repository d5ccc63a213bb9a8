#include "fs/daemon.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "engine/log.h"

static sigset_t ending_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	return signals;
}

/* The parent: a byte means that the mount works, the end of the pipe that the
 * daemon is gone and has said why. */
__attribute__((noreturn)) static void parent_wait(pid_t child, int fd)
{
	char byte;
	ssize_t count;
	int status;

	do {
		count = read(fd, &byte, 1);
	} while (count < 0 && errno == EINTR);
	if (count == 1)
		_exit(EXIT_SUCCESS);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	log_message(LOG_ERR, "ended by signal %d before the mount was ready",
	            WTERMSIG(status));
	_exit(EXIT_FAILURE);
}

/* Returns in the child only. */
static int go_to_background(int *ret_parent_fd)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;

	pid_t child = fork();

	if (child < 0) {
		int err = -errno;

		close(ends[0]);
		close(ends[1]);
		return err;
	}
	if (child > 0) {
		close(ends[1]);
		parent_wait(child, ends[0]);
	}
	close(ends[0]);
	*ret_parent_fd = ends[1];
	return 0;
}

static int signals_open(int *ret_fd)
{
	/*
	 * SIGXFSZ: a write beyond the daemon's own limit is an error, not an
	 * end.  SIGPIPE: the parent may be gone.  SIGHUP: the terminal may be
	 * gone.  SIGUSR1: has no meaning, but would kill.
	 */
	static const int ignored[] = {SIGXFSZ, SIGPIPE, SIGHUP, SIGUSR1};
	sigset_t ending = ending_signals();

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		(void)signal(ignored[i], SIG_IGN); /* cannot fail for these */
	if (sigprocmask(SIG_BLOCK, &ending, NULL) < 0)
		return -errno;
	*ret_fd = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
	return *ret_fd < 0 ? -errno : 0;
}

int daemon_open(enum daemon_mode mode, struct daemon *ret_daemon)
{
	struct daemon daemon = {.parent_fd = -1};

	for (size_t i = 0; i < DAEMON_EVENT_COUNT; i++)
		daemon.event_fds[i] = -1;

	int err = mode == DAEMON_BACKGROUND
	                  ? go_to_background(&daemon.parent_fd)
	                  : 0;
	if (!err)
		err = signals_open(&daemon.event_fds[DAEMON_SIGNAL]);
	for (size_t i = DAEMON_END; !err && i < DAEMON_EVENT_COUNT; i++) {
		daemon.event_fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (daemon.event_fds[i] < 0)
			err = -errno;
	}
	if (err) {
		daemon_close(&daemon);
		return err;
	}
	*ret_daemon = daemon;
	return 0;
}

void daemon_close(struct daemon *daemon)
{
	for (size_t i = 0; i < DAEMON_EVENT_COUNT; i++)
		auto_close_fd(&daemon->event_fds[i]);
	auto_close_fd(&daemon->parent_fd);
}

void daemon_post(struct daemon *daemon, enum daemon_event event)
{
	assert(event == DAEMON_END || event == DAEMON_READY);

	/* Fails only when the counter is full: then it is posted already. */
	(void)eventfd_write(daemon->event_fds[event], 1);
}

enum daemon_event daemon_wait(struct daemon *daemon, int timeout_ms)
{
	struct pollfd polls[DAEMON_EVENT_COUNT];
	struct signalfd_siginfo taken; /* larger than the counter of an event */
	int count;

	for (size_t i = 0; i < DAEMON_EVENT_COUNT; i++)
		polls[i] = (struct pollfd){.fd = daemon->event_fds[i],
		                           .events = POLLIN};
	do {
		count = poll(polls, DAEMON_EVENT_COUNT, timeout_ms);
	} while (count < 0 && errno == EINTR);
	for (size_t i = 0; i < DAEMON_EVENT_COUNT; i++) {
		if (!polls[i].revents ||
		    read(polls[i].fd, &taken, sizeof(taken)) <= 0)
			continue;
		if (i == DAEMON_SIGNAL)
			daemon->is_signalled = true;
		return (enum daemon_event)i;
	}
	return DAEMON_TIMEOUT;
}

/* Best effort: a daemon without /dev/null keeps what it has. */
static void leave_terminal(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)setsid();
	(void)!chdir("/");
	if (fd < 0)
		return;
	for (int standard = 0; standard <= STDERR_FILENO; standard++)
		(void)dup2(fd, standard);
	if (fd > STDERR_FILENO)
		close(fd);
}

void daemon_detach(struct daemon *daemon)
{
	if (daemon->parent_fd < 0)
		return;
	log_to_syslog();
	leave_terminal();
	/* A parent that is gone does not care. */
	(void)!write(daemon->parent_fd, "", 1);
	auto_close_fd(&daemon->parent_fd);
	daemon->parent_fd = -1;
}

void daemon_release_signals(const struct daemon *daemon)
{
	sigset_t ending = ending_signals();

	if (daemon->is_signalled)
		(void)sigprocmask(SIG_UNBLOCK, &ending, NULL);
}
