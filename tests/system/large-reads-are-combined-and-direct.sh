#!/bin/bash
#
# A scan in small requests becomes large I/Os with O_DIRECT: 256 KiB on average
# at least.  Small I/Os would leave most of the disk's speed unused, buffered
# ones would keep the file in memory twice.

. "$(dirname "$0")/../lib/mount.sh"
setup

# /tmp may be in memory, where there is no direct I/O to speak of.
[[ $(stat -f -c %T "$SOURCE") != tmpfs ]] || make_disk ext4 512M
pattern write "$SOURCE/file" 4 268435456

for mode in auto off; do
	drop_source_cache
	mount_source "kernel_cache=$mode,cache_size=512M"
	pattern read "$MOUNT/file" 4 block=131072 >/dev/null

	ios=$(stat_value ios)
	expect "the whole file was read" "$(stat_value io_bytes)" \
		-ge 268435456
	expect "average bytes of an I/O" \
		$(($(stat_value io_bytes) / ios)) -ge 262144
	expect "direct I/Os of 100" $(($(stat_value direct_ios) * 100 / ios)) \
		-ge 95
	expect "combined I/Os" "$(stat_value io_combined)" -gt 0
	unmount
done
