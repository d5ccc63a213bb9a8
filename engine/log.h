/*
 * log.h - where messages for the operator go
 *
 * One line a message, to stderr until log_to_syslog() is called.  The engine
 * logs only what nobody waits for; everything else is an error code.
 */
#ifndef ENGINE_LOG_H
#define ENGINE_LOG_H

/* Levels are those of syslog(3): LOG_ERR, LOG_WARNING, LOG_INFO. */
__attribute__((format(printf, 2, 3))) void log_message(int level,
                                                       const char *format, ...);

/* From now on to syslog: the daemon has left its terminal. */
void log_to_syslog(void);

#endif
