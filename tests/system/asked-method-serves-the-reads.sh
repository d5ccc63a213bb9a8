#!/bin/bash
#
# The I/O method that was asked for is the one that reads SOURCE.  Every other
# test may run with any method; this one proves that they really differ.

. "$(dirname "$0")/../lib/mount.sh"
setup

pattern write "$SOURCE/file" 1 8388608
for method in io_uring worker sync; do
	mount_source "kernel_cache=off,io_method=$method"
	pattern read "$MOUNT/file" 1 >/dev/null

	ios=$(stat_value ios)
	expect "$method reads" "$ios" -gt 0
	for name in io_uring worker sync; do
		count=$(stat_value "io_method_${name/io_uring/uring}")
		if [[ $name == "$method" ]]; then
			expect "all I/Os by $name" "$count" -eq "$ios"
		else
			expect "no I/O by $name" "$count" -eq 0
		fi
	done
	# Not the helper: it would compare with the method of the test run.
	umount "$MOUNT"
	expect_clean_end
done
