#!/bin/bash
#
# `cp -a` into, out of and within the mount keeps contents, times, modes, links
# and holes.

. "$(dirname "$0")/../lib/mount.sh"
. "$(dirname "$0")/../lib/apps.sh"
setup

work() {
	cp -a input copy
	diff -r --no-dereference input copy
	diff <(cd input && find . ! -type d -printf "$1" | sort) \
		<(cd copy && find . ! -type d -printf "$1" | sort)
	cp --sparse=always copy/hole sparse
	cp --reflink=never copy/large large
	cp -a copy "$TEST_DIR/outside"
	diff -r --no-dereference input "$TEST_DIR/outside"
	rm -r "$TEST_DIR/outside"
}

copy_and_compare() {
	work "%P %y %m %U:%G %n %s %T@ %l\n"
}

compare_runs copy_and_compare
