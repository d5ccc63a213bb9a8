/*
 * Every value that a user may write is read as he means it, or refused with a
 * reason that names the option, the value and what is allowed; and a value is
 * never left above its cap.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/cleanup.h"
#include "engine/memory.h"
#include "engine/options.h"

#define KIB (1LL << 10)
#define MIB (1LL << 20)
#define GIB (1LL << 30)
#define TIB (1LL << 40)

static int set_up(void **state)
{
	static struct options options;

	assert_int_equal(options_init(&options), 0);
	*state = &options;
	return 0;
}

static int tear_down(void **state)
{
	options_done(*state);
	return 0;
}

static int set(struct options *options, const char *name, const char *value)
{
	char reason[OPTIONS_REASON_BYTES];

	return options_set(options, name, value, ORIGIN_MOUNT, reason);
}

static void defaults_come_from_the_table(void **state)
{
	const struct options *options = *state;
	char text[64];

	assert_int_equal(option_get(options, io_max_concurrency), 256);
	assert_int_equal(option_get(options, io_combine_limit), MIB);
	assert_int_equal(option_get(options, io_method), IO_METHOD_AUTO);
	assert_int_equal(option_get(options, checksums), 1);
	assert_string_equal(options->control, ".aheadfs");
	for (enum option_id id = 0; id < OPTION_COUNT; id++) {
		option_format(options, id, text, sizeof(text));
		assert_int_equal(atomic_load(&options->origin[id]),
		                 ORIGIN_DEFAULT);
		assert_true(options_is_name(option_name(id)));
		assert_true(strlen(option_help(id)) > 0);
		if (id != OPTION_cache_size)
			assert_string_equal(text, option_default(id));
	}
}

static void numbers_are_read(void **state)
{
	static const struct {
		const char *name;
		const char *value;
		int64_t expected;
	} rows[] = {
		{"cache_size", "16777216", 16 * MIB},
		{"cache_size", "16384K", 16 * MIB},
		{"cache_size", "256M", 256 * MIB},
		{"cache_size", "256m", 256 * MIB},
		{"cache_size", "3G", 3 * GIB},
		{"cache_size", "2t", 2 * TIB},
		{"cache_size", "16777217", 16 * MIB}, /* whole pages */
		{"io_combine_limit", "4096", 4 * KIB},
		{"io_combine_limit", "10000", 8 * KIB},
		{"io_combine_limit", "1M", MIB},
		{"readahead_max", "0", 0},
		{"readahead_max", "1G", GIB},
		{"io_workers", "1", 1},
		{"io_workers", "64", 64},
		{"io_workers", "007", 7},
		{"attr_timeout", "0", 0},
		{"attr_timeout", "1", 1000},
		{"attr_timeout", "1.5", 1500},
		{"attr_timeout", "0.001", 1},
		{"attr_timeout", "0.25", 250},
		{"attr_timeout", "86400.000", 86400000},
		{"io_method", "io_uring", IO_METHOD_URING},
		{"io_method", "sync", IO_METHOD_SYNC},
		{"direct", "on", CHOICE_ON},
		{"direct", "off", CHOICE_OFF},
		{"kernel_cache", "auto", CHOICE_AUTO},
		{"checksums", "off", 0},
		{"checksums", "on", 1},
		{"on_corruption", "log", ON_CORRUPTION_LOG},
	};
	const struct {
		const char *name;
		const _Atomic(int64_t) *number;
	} fields[] = {
#define OPTION(name, ...)        {#name, &((struct options *)*state)->name},
#define OPTION_CHOICE(name, ...) {#name, &((struct options *)*state)->name},
#define OPTION_TEXT(name, ...)
#include "engine/options.def"
#undef OPTION
#undef OPTION_CHOICE
#undef OPTION_TEXT
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(set(*state, rows[i].name, rows[i].value), 0);
		for (size_t j = 0; j < ARRAY_SIZE(fields); j++)
			if (strcmp(fields[j].name, rows[i].name) == 0)
				assert_int_equal(atomic_load(fields[j].number),
				                 rows[i].expected);
	}
}

static void percents_are_of_memory(void **state)
{
	struct options *options = *state;
	int64_t hundredth = (int64_t)(memory_limit() / 100);

	assert_int_equal(set(options, "cache_size", "50%"), 0);
	/* On a tiny machine the minimum wins. */
	if (hundredth * 50 > 16 * MIB)
		assert_int_equal(option_get(options, cache_size),
		                 hundredth * 50 / 4096 * 4096);
	assert_int_equal(set(options, "cache_size", "1%"), 0);
	assert_true(option_get(options, cache_size) >= 16 * MIB);
}

/* The reason names option, value and what is allowed; nothing changes. */
static void bad_values_are_refused(void **state)
{
	static const struct {
		const char *name;
		const char *value;
		const char *allowed;
	} rows[] = {
		{"cache_size", "", "at least 16M"},
		{"cache_size", "16777215", "at least 16M"},
		{"cache_size", "12Q", "K, M, G, T"},
		{"cache_size", "1GB", "K, M, G, T"},
		{"cache_size", "1 G", "K, M, G, T"},
		{"cache_size", " 1G", "K, M, G, T"},
		{"cache_size", "1.5G", "K, M, G, T"},
		{"cache_size", "-1", "at least 16M"},
		{"cache_size", "+64M", "at least 16M"},
		{"cache_size", "0%", "1% to 90%"},
		{"cache_size", "91%", "1% to 90%"},
		{"cache_size", "5%%", "1% to 90%"},
		{"cache_size", "%", "1% to 90%"},
		{"cache_size", "8388608T", "at least 16M"}, /* 2^63 */
		{"cache_size", "99999999999999999999", "at least 16M"},
		{"io_combine_limit", "25%", "from 4K to 1M"},
		{"io_combine_limit", "4095", "from 4K to 1M"},
		{"io_combine_limit", "2M", "from 4K to 1M"},
		{"io_workers", "0", "from 1 to 64"},
		{"io_workers", "65", "from 1 to 64"},
		{"io_workers", "1K", "from 1 to 64"},
		{"io_workers", "0x10", "from 1 to 64"},
		{"attr_timeout", "soon", "from 0 to 86400"},
		{"attr_timeout", "1.", "from 0 to 86400"},
		{"attr_timeout", ".5", "from 0 to 86400"},
		{"attr_timeout", "1.0005", "from 0 to 86400"},
		{"attr_timeout", "86400.001", "from 0 to 86400"},
		{"attr_timeout", "9223372036854775807", "from 0 to 86400"},
		{"io_method", "magic", "auto|io_uring|worker|sync"},
		{"io_method", "io", "auto|io_uring|worker|sync"},
		{"io_method", "auto|io_uring", "auto|io_uring|worker|sync"},
		{"io_method", "", "auto|io_uring|worker|sync"},
		{"kernel_cache", "1", "auto|on|off"},
		{"checksums", "auto", "off|on"},
		{"control", "", "name"},
	};
	char reason[OPTIONS_REASON_BYTES], before[64], after[64];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum option_id id = 0;
		auto_free char *quoted = NULL;

		while (strcmp(option_name(id), rows[i].name) != 0)
			id++;
		option_format(*state, id, before, sizeof(before));
		assert_int_equal(options_set(*state, rows[i].name,
		                             rows[i].value, ORIGIN_MOUNT,
		                             reason),
		                 -EINVAL);
		option_format(*state, id, after, sizeof(after));
		assert_string_equal(before, after);
		assert_true(asprintf(&quoted, "%s=%s is not valid",
		                     rows[i].name, rows[i].value) > 0);
		assert_non_null(strstr(reason, quoted));
		assert_non_null(strstr(reason, rows[i].allowed));
	}
}

static void long_text_fits_the_reason(void **state)
{
	char long_text[4096], reason[OPTIONS_REASON_BYTES];

	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	assert_int_equal(options_set(*state, "cache_size", long_text,
	                             ORIGIN_MOUNT, reason),
	                 -EINVAL);
	assert_non_null(strstr(reason, "1% to 90%"));
	assert_int_equal(
		options_set(*state, long_text, "1", ORIGIN_MOUNT, reason),
		-ENOENT);
	assert_non_null(strstr(reason, "aheadfs -h"));
}

static void unknown_names_are_refused(void **state)
{
	static const char *const names[] = {
		"",           "cache",   "cache_size2",
		"Cache_Size", "no_such", "cache_size "};
	char reason[OPTIONS_REASON_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_false(options_is_name(names[i]));
		assert_int_equal(options_set(*state, names[i], "64M",
		                             ORIGIN_MOUNT, reason),
		                 -ENOENT);
		assert_non_null(strstr(reason, names[i]));
	}
}

static void only_live_options_change_while_mounted(void **state)
{
	struct options *options = *state;
	char reason[OPTIONS_REASON_BYTES];

	for (enum option_id id = 0; id < OPTION_COUNT; id++) {
		int err = options_set(options, option_name(id),
		                      option_default(id), ORIGIN_LIVE, reason);

		if (option_when(id) == OPTION_LIVE) {
			assert_int_equal(err, 0);
			assert_int_equal(atomic_load(&options->origin[id]),
			                 ORIGIN_LIVE);
		} else {
			assert_int_equal(err, -EPERM);
			assert_non_null(strstr(reason, option_name(id)));
			assert_int_equal(atomic_load(&options->origin[id]),
			                 ORIGIN_DEFAULT);
		}
	}
}

static void values_stay_below_their_cap(void **state)
{
	struct options *options = *state;

	assert_int_equal(set(options, "effective_io_concurrency", "500"), 0);
	assert_int_equal(set(options, "io_max_concurrency", "100"), 0);
	assert_int_equal(set(options, "io_max_combine_limit", "256K"), 0);
	options_clamp(options);
	assert_int_equal(option_get(options, effective_io_concurrency), 100);
	assert_int_equal(option_get(options, io_combine_limit), 256 * KIB);
	assert_int_equal(
		atomic_load(&options->origin[OPTION_effective_io_concurrency]),
		ORIGIN_CLAMPED);
	assert_int_equal(atomic_load(&options->origin[OPTION_io_combine_limit]),
	                 ORIGIN_CLAMPED);

	/* What is below already keeps its origin. */
	assert_int_equal(set(options, "effective_io_concurrency", "50"), 0);
	options_clamp(options);
	assert_int_equal(option_get(options, effective_io_concurrency), 50);
	assert_int_equal(
		atomic_load(&options->origin[OPTION_effective_io_concurrency]),
		ORIGIN_MOUNT);
}

/* Lanes read a live value at once: it is never above the cap. */
static void live_values_are_lowered_when_set(void **state)
{
	struct options *options = *state;
	char reason[OPTIONS_REASON_BYTES];

	assert_int_equal(options_set(options, "effective_io_concurrency",
	                             "1000", ORIGIN_LIVE, reason),
	                 0);
	assert_int_equal(option_get(options, effective_io_concurrency), 256);
	assert_int_equal(
		atomic_load(&options->origin[OPTION_effective_io_concurrency]),
		ORIGIN_CLAMPED);
}

static void format_is_read_back(void **state)
{
	static const struct {
		const char *name;
		const char *value;
		const char *formatted;
	} rows[] = {
		{"cache_size", "268435456", "256M"},
		{"cache_size", "1536M", "1536M"},
		{"cache_size", "2048G", "2T"},
		{"cache_size", "2097152T", "2097152T"},
		{"cache_size", "16781312", "16388K"},
		{"readahead_max", "0", "0"},
		{"attr_timeout", "1.500", "1.5"},
		{"attr_timeout", "0.005", "0.005"},
		{"attr_timeout", "60", "60"},
		{"attr_timeout", "10.01", "10.01"},
		{"io_workers", "10", "10"},
		{"io_method", "worker", "worker"},
		{"direct", "off", "off"},
		{"control", "a name", "a name"},
	};
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum option_id id = 0;

		while (strcmp(option_name(id), rows[i].name) != 0)
			id++;
		assert_int_equal(set(*state, rows[i].name, rows[i].value), 0);
		option_format(*state, id, text, sizeof(text));
		assert_string_equal(text, rows[i].formatted);
		assert_int_equal(set(*state, rows[i].name, text), 0);
		option_format(*state, id, text, sizeof(text));
		assert_string_equal(text, rows[i].formatted);
	}
}

/* A directory that looks like the files of control groups. */
struct groups {
	char top[32];
	char cgroup[64];
	char mounts[64];
};

static void write_file(const char *path, const char *text)
{
	FILE *stream = fopen(path, "w");

	assert_non_null(stream);
	assert_true(fputs(text, stream) >= 0);
	assert_int_equal(fclose(stream), 0);
}

/* @root: what of the tree the mount shows. */
static void groups_open(struct groups *groups, const char *root,
                        const char *cgroup_lines, const char *type,
                        const char *super_options)
{
	char line[256];

	strcpy(groups->top, "/tmp/groups XXXXXX");
	assert_non_null(mkdtemp(groups->top));
	snprintf(groups->cgroup, sizeof(groups->cgroup), "%s/cgroup",
	         groups->top);
	snprintf(groups->mounts, sizeof(groups->mounts), "%s/mounts",
	         groups->top);
	write_file(groups->cgroup, cgroup_lines);
	/* The blank of the name, as the kernel writes it. */
	snprintf(line, sizeof(line),
	         "30 1 0:5 / / rw - ext4 /dev/sda rw\n"
	         "31 30 0:6 %s /tmp/groups\\040%s rw shared:1 - %s none %s\n",
	         root, groups->top + strlen("/tmp/groups "), type,
	         super_options);
	write_file(groups->mounts, line);
}

static void groups_add(const struct groups *groups, const char *directory,
                       const char *file, const char *limit)
{
	char path[128];

	snprintf(path, sizeof(path), "%s%s", groups->top, directory);
	(void)mkdir(path, 0700); /* may exist */
	snprintf(path, sizeof(path), "%s%s/%s", groups->top, directory, file);
	write_file(path, limit);
}

static void groups_close(const struct groups *groups)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r '%s'", groups->top);
	assert_int_equal(system(command), 0);
}

static void groups_expect(const struct groups *groups, uint64_t expected)
{
	assert_int_equal(memory_cgroup_limit(groups->cgroup, groups->mounts),
	                 expected);
	groups_close(groups);
}

static void smallest_group_counts(void **state)
{
	struct groups groups;

	/* Version 2: the parent is the tighter one. */
	groups_open(&groups, "/", "0::/outer/inner\n", "cgroup2", "rw");
	groups_add(&groups, "/outer", "memory.max", "1000000\n");
	groups_add(&groups, "/outer/inner", "memory.max", "2000000\n");
	groups_expect(&groups, 1000000);

	/* Version 2 without any limit; other hierarchies do not matter. */
	groups_open(&groups, "/", "3:memory:/outer\n0::/outer\n", "cgroup2",
	            "rw,nsdelegate");
	groups_add(&groups, "/outer", "memory.max", "max\n");
	groups_expect(&groups, UINT64_MAX);

	/* Version 1, among other controllers. */
	groups_open(&groups, "/", "2:cpu:/other\n3:blkio,memory:/outer\n0::/\n",
	            "cgroup", "rw,blkio,memory");
	groups_add(&groups, "/outer", "memory.limit_in_bytes", "3000000\n");
	groups_add(&groups, "", "memory.limit_in_bytes",
	           "9223372036854771712\n");
	groups_expect(&groups, 3000000);

	/* A container sees only its own part of the tree. */
	groups_open(&groups, "/box", "3:memory:/box/inner\n", "cgroup",
	            "rw,memory");
	groups_add(&groups, "/inner", "memory.limit_in_bytes", "4000000\n");
	groups_expect(&groups, 4000000);

	/* The hierarchy of another controller. */
	groups_open(&groups, "/", "3:memory:/\n", "cgroup", "rw,cpu");
	groups_add(&groups, "", "memory.limit_in_bytes", "5000000\n");
	groups_expect(&groups, UINT64_MAX);
}

static void missing_group_files_mean_no_limit(void **state)
{
	assert_int_equal(memory_cgroup_limit("/no/such/file", "/no/such/file"),
	                 UINT64_MAX);
	assert_true(memory_limit() > 0);
}

#define OPTIONS_TEST(name) \
	cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		OPTIONS_TEST(defaults_come_from_the_table),
		OPTIONS_TEST(numbers_are_read),
		OPTIONS_TEST(percents_are_of_memory),
		OPTIONS_TEST(bad_values_are_refused),
		OPTIONS_TEST(long_text_fits_the_reason),
		OPTIONS_TEST(unknown_names_are_refused),
		OPTIONS_TEST(only_live_options_change_while_mounted),
		OPTIONS_TEST(values_stay_below_their_cap),
		OPTIONS_TEST(live_values_are_lowered_when_set),
		OPTIONS_TEST(format_is_read_back),
		cmocka_unit_test(smallest_group_counts),
		cmocka_unit_test(missing_group_files_mean_no_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
