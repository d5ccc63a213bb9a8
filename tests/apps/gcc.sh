#!/bin/bash
#
# gcc compiles and links a program in the mount to the same bytes, and the
# program runs from there.

. "$(dirname "$0")/../lib/mount.sh"
. "$(dirname "$0")/../lib/apps.sh"
setup

work() {
	cd input
	gcc -std=gnu11 -O1 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I. -c \
		engine/options.c engine/stats.c engine/combine.c engine/log.c
	ar rcsD engine.a ./*.o
	gcc -O1 -D_GNU_SOURCE tests/lib/pattern.c -o pattern
	./pattern write written 3 3000000
	./pattern read written 3
}

compare_runs work
