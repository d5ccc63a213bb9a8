#include "engine/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <syslog.h>
#include <unistd.h>

/* The one global of the house: a process has one log.  Written once, before
 * the first lane starts, hence relaxed. */
static atomic_bool log_uses_syslog;

void log_message(int level, const char *format, ...)
{
	/* One write, so that lines of several threads do not mix. */
	char line[1024];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);

	if (atomic_load_explicit(&log_uses_syslog, memory_order_relaxed))
		syslog(level, "%s", line);
	else
		dprintf(STDERR_FILENO, "aheadfs: %s\n", line);
}

void log_to_syslog(void)
{
	openlog("aheadfs", LOG_PID, LOG_DAEMON);
	atomic_store_explicit(&log_uses_syslog, true, memory_order_relaxed);
}
