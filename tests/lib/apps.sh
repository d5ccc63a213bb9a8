# shellcheck shell=bash
#
# apps.sh - run an unmodified program on SOURCE's filesystem and on the mount,
# and compare; sourced after mount.sh
#
#	work() {
#		tar -cf archive.tar input
#	}
#	compare_runs work
#
# The function runs in SOURCE, then in mounts of it, each time beside a fresh
# copy of the same input.  What it prints and what it leaves behind must be the
# same.

# Real files, with some that are large or odd.
make_input() {
	mkdir "$TEST_DIR/input"
	cp -a /usr/include/linux "$TEST_DIR/input/headers"
	cp -a "$TOP/engine" "$TOP/fs" "$TOP/tests" "$TEST_DIR/input"
	pattern write "$TEST_DIR/input/large" 21 20000001
	truncate -s 3000001 "$TEST_DIR/input/hole"
	: >"$TEST_DIR/input/empty"
	ln -s headers/fuse.h "$TEST_DIR/input/link"
	ln "$TEST_DIR/input/large" "$TEST_DIR/input/hard link"
	chmod 2750 "$TEST_DIR/input/headers"
}

# Names, kinds, modes, links and contents; neither times nor sizes of
# directories, which are each run's own.
tree_contents() {
	(
		cd "$1"
		find . -type d -printf '%P %y %m\n' -o \
			-printf '%P %y %m %n %s %l\n' | sort
		find . -type f -print0 | sort -z | xargs -0 -r md5sum
	)
}

# run_in DIRECTORY FUNCTION OUTPUT
run_in() {
	local status
	cp -a "$TEST_DIR/input" "$1/input"
	# Not as a condition: there the shell would go on after an error.
	set +e
	(
		set -e
		cd "$1"
		"$2"
	) >"$3" 2>&1
	status=$?
	set -e
	if [[ $status -ne 0 ]]; then
		tail -n 30 "$3" >&2
		fail "$2 fails in $1"
	fi
}

compare_runs() {
	local mode
	[[ -d $TEST_DIR/input ]] || make_input
	run_in "$SOURCE" "$1" "$TEST_DIR/output.source"
	tree_contents "$SOURCE" >"$TEST_DIR/tree.source"

	for mode in auto off; do
		find "$SOURCE" -mindepth 1 -delete
		mount_source "kernel_cache=$mode"
		run_in "$MOUNT" "$1" "$TEST_DIR/output.mount"
		tree_contents "$MOUNT" >"$TEST_DIR/tree.mount"
		diff "$TEST_DIR/output.source" "$TEST_DIR/output.mount" ||
			fail "$1 says something else with kernel_cache=$mode"
		diff "$TEST_DIR/tree.source" "$TEST_DIR/tree.mount" ||
			fail "$1 leaves something else with kernel_cache=$mode"
		expect_same_trees "$SOURCE" "$MOUNT"
		unmount
	done
}
