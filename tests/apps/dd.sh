#!/bin/bash
#
# dd reads and writes the same bytes in blocks of any size, at any offset, with
# and without O_DIRECT.

. "$(dirname "$0")/../lib/mount.sh"
. "$(dirname "$0")/../lib/apps.sh"
setup

direct=iflag=direct
[[ $(stat -f -c %T "$SOURCE") != tmpfs ]] || direct=iflag=fullblock

work() {
	local size
	for size in 1000 4096 5555 65536 1000000 1048576 3000000; do
		dd if=input/large bs="$size" status=none | md5sum
		dd if=input/large bs="$size" skip=3 count=2 status=none |
			md5sum
	done
	for size in 4096 65536 1048576 4194304; do
		dd if=input/large bs="$size" "$direct" status=none | md5sum
	done
	dd if=input/large of=copy bs=777777 status=none
	dd if=input/large of=copy bs=4096 seek=100 skip=3 count=50 \
		conv=notrunc status=none
	dd if=input/large of=direct bs=1M count=5 oflag="${direct#iflag=}" \
		status=none
	dd if=/dev/null of=copy bs=1 seek=9999999 status=none
	dd if=input/large of=appended oflag=append conv=notrunc bs=12345 \
		count=7 status=none
	dd if=input/large of=synced bs=100000 count=20 conv=fsync status=none
}

compare_runs work
