#!/bin/bash
#
# With the kernel's cache in front of ours, a change behind the mount that only
# an I/O of ours has noticed must cost the kernel its copy too: the next open
# gets the new bytes, and so does, soon, who still has the file open.

. "$(dirname "$0")/../lib/mount.sh"
setup

head -c 8M /dev/zero | tr '\0' a >"$SOURCE/file"
mount_source kernel_cache=on,cache_size=16M,readahead_max=0,attr_timeout=600
exec 7<"$MOUNT/file"
first_byte() {
	head -c 1 "$1"
}
kernel_has_new_bytes() {
	[[ $(python3 -c 'import os, sys
sys.stdout.write(os.pread(7, 1, 0).decode())') == b ]]
}
expect "old bytes" "$(first_byte "$MOUNT/file")" = a
# Nothing is asked about the file: neither opened nor stat'ed.
head -c 8M /dev/zero | tr '\0' b |
	dd of="$SOURCE/file" conv=notrunc bs=1M status=none
before=$(stat_value identity_changes)
python3 -c 'import os
assert os.pread(7, 4096, 4 << 20) == b"b" * 4096'
expect "the I/O noticed" "$(stat_value identity_changes)" -gt "$before"
wait_until "the kernel's copy is gone" kernel_has_new_bytes
expect "new bytes" "$(first_byte "$MOUNT/file")" = b
exec 7<&-
unmount
