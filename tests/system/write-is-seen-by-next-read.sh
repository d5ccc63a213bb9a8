#!/bin/bash
#
# Whatever changes a file through the mount is seen by the next read, through
# the mount and on SOURCE alike: also by readers who had the file open and its
# old pages cached before.  A cache that forgets this corrupts databases.

. "$(dirname "$0")/../lib/mount.sh"
setup

for mode in off on auto; do
	mount_source "kernel_cache=$mode"
	for seed in 1 2 3; do
		python3 "$TESTS_LIB/file_model.py" "$MOUNT/file" \
			"$SOURCE/file" "$seed" 150
	done
	expect "written bytes are counted" "$(stat_value write_bytes)" -gt 0
	unmount
done
