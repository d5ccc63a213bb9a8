/*
 * memory.h - how much memory there is for this process
 *
 * The smaller of the machine's memory and the limits of the control groups
 * that the process is in, parents included, because a group is held to the
 * limits of all groups around it.  Both versions of control groups are asked.
 */
#ifndef ENGINE_MEMORY_H
#define ENGINE_MEMORY_H

#include <stdint.h>

/* Bytes; never 0. */
uint64_t memory_limit(void);

/*
 * The smallest limit of the control groups that @cgroup_path (as
 * /proc/self/cgroup) names, found below the mounts in @mountinfo_path.
 * UINT64_MAX: no limit.
 */
uint64_t memory_cgroup_limit(const char *cgroup_path,
                             const char *mountinfo_path);

#endif
