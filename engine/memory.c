#include "engine/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "engine/mountinfo.h"

/* How the two versions of control groups call things. */
struct cgroup_version {
	const char *type;       /* of the mount */
	const char *controller; /* in its options; NULL: carries them all */
	const char *limit;      /* the file with the limit */
};

static const struct cgroup_version cgroup_versions[] = {
	{"cgroup", "memory", "memory.limit_in_bytes"},
	{"cgroup2", NULL, "memory.max"},
};

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A group that has no such file, or says "max", has no limit. */
static uint64_t limit_read(const char *directory, const char *name)
{
	auto_free char *path = NULL;
	uint64_t limit;

	if (asprintf(&path, "%s/%s", directory, name) < 0) {
		path = NULL;
		return UINT64_MAX;
	}

	FILE *stream = fopen(path, "re");

	if (!stream)
		return UINT64_MAX;
	if (fscanf(stream, "%" SCNu64, &limit) != 1)
		limit = UINT64_MAX;
	fclose(stream);
	return limit;
}

/* The smallest limit from the group @below the mount @point up to @point. */
static uint64_t limit_walk(const char *point, const char *below,
                           const char *name)
{
	auto_free char *directory = NULL;
	uint64_t limit = UINT64_MAX;

	if (asprintf(&directory, "%s%s", point, below) < 0) {
		directory = NULL;
		return UINT64_MAX;
	}
	for (;;) {
		limit = min_u64(limit, limit_read(directory, name));

		char *last = strrchr(directory, '/');

		if (!last || last < directory + strlen(point))
			return limit;
		*last = '\0';
	}
}

/*
 * The group of this process in one hierarchy, as a line of /proc/self/cgroup
 * names it: "ID:CONTROLLERS:PATH", without controllers in version 2.
 */
static char *group_find(const char *cgroup_path,
                        const struct cgroup_version *version)
{
	FILE *stream = fopen(cgroup_path, "re");
	auto_free char *line = NULL;
	char *group = NULL;
	size_t line_bytes = 0;

	if (!stream)
		return NULL;
	while (!group && getline(&line, &line_bytes, stream) > 0) {
		char *rest = line;

		line[strcspn(line, "\n")] = '\0';
		(void)strsep(&rest, ":"); /* the ID */

		const char *controllers = strsep(&rest, ":");
		bool is_ours =
			rest &&
			(version->controller
		                 ? mountinfo_has_word(controllers,
		                                      version->controller)
		                 : controllers[0] == '\0');

		if (is_ours)
			group = strdup(rest);
	}
	fclose(stream);
	return group;
}

/* In a container the mount may show only a part of the tree: @root of it. */
static const char *group_below(const char *group, const char *root)
{
	size_t length = strlen(root);

	if (strcmp(root, "/") == 0)
		return strcmp(group, "/") == 0 ? "" : group;
	if (strncmp(group, root, length) == 0 &&
	    (group[length] == '/' || group[length] == '\0'))
		return group + length;
	return "";
}

static uint64_t version_limit(const struct cgroup_version *version,
                              const char *cgroup_path,
                              const char *mountinfo_path)
{
	auto_free char *group = group_find(cgroup_path, version);
	uint64_t limit = UINT64_MAX;
	struct mountinfo mounts;

	if (!group || mountinfo_open(mountinfo_path, &mounts) < 0)
		return UINT64_MAX;
	while (mountinfo_next(&mounts)) {
		if (strcmp(mounts.type, version->type) != 0)
			continue;
		if (version->controller &&
		    !mountinfo_has_word(mounts.super_options,
		                        version->controller))
			continue;
		limit = min_u64(limit,
		                limit_walk(mounts.point,
		                           group_below(group, mounts.root),
		                           version->limit));
	}
	mountinfo_close(&mounts);
	return limit;
}

uint64_t memory_cgroup_limit(const char *cgroup_path,
                             const char *mountinfo_path)
{
	uint64_t limit = UINT64_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(cgroup_versions); i++)
		limit = min_u64(limit,
		                version_limit(&cgroup_versions[i], cgroup_path,
		                              mountinfo_path));
	return limit;
}

uint64_t memory_limit(void)
{
	uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) *
	                   (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t groups = memory_cgroup_limit("/proc/self/cgroup",
	                                      "/proc/self/mountinfo");

	/* A group may be held to nothing at all; something must be left. */
	return min_u64(machine, groups > 0 ? groups : 1);
}
