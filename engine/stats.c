#include "engine/stats.h"

#include <assert.h>

static const struct {
	const char *name;
	const char *unit;
	const char *help;
	enum stat_kind kind;
} stat_table[STAT_COUNT] = {
#define STAT(name, kind, unit, help) \
	[STAT_##name] = {#name, #unit, help, STAT_##kind},
#include "engine/stats.def"
#undef STAT
};

const char *stat_name(enum stat_id id)
{
	assert(id < STAT_COUNT);
	return stat_table[id].name;
}

const char *stat_unit(enum stat_id id)
{
	assert(id < STAT_COUNT);
	return stat_table[id].unit;
}

const char *stat_help(enum stat_id id)
{
	assert(id < STAT_COUNT);
	return stat_table[id].help;
}

enum stat_kind stat_kind(enum stat_id id)
{
	assert(id < STAT_COUNT);
	return stat_table[id].kind;
}
