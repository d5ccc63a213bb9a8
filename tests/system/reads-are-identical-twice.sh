#!/bin/bash
#
# A tree reads the same through the mount as on SOURCE, whether its pages come
# from the disk or, the second time, from the cache.  The odd things are here
# on purpose: ends that are not page ends, holes, nothing at all, links.

. "$(dirname "$0")/../lib/mount.sh"
setup

make_odd_tree() {
	local size
	mkdir -p "$1/a/b/c" "$1/empty directory"
	for size in 1 511 512 4095 4096 4097 65535 1048575 1048577 5000001; do
		pattern write "$1/a/file-$size" "$size" "$size"
	done
	: >"$1/a/empty"
	truncate -s 10000000 "$1/a/hole"
	pattern write "$1/a/b/islands" 7 20000
	truncate -s 3000000 "$1/a/b/islands"
	printf end >>"$1/a/b/islands"
	ln -s ../file-4097 "$1/a/b/link"
	ln -s /does/not/exist "$1/a/b/dangling"
	ln "$1/a/file-4095" "$1/a/b/c/hard"
	mkfifo "$1/a/fifo.special"
	mknod "$1/a/null.special" c 1 3
	printf x >"$1/a/name with  spaces and ünïcode"
	chmod 640 "$1/a/file-512"
	chmod 4755 "$1/a/file-511"
	chown 12345:54321 "$1/a/file-4096"
	touch -d '1999-12-31 23:59:59.123456789' "$1/a/file-65535"
}

read_twice() {
	local hits
	expect_same_trees "$SOURCE" "$MOUNT"
	hits=$(stat_value cache_hits)
	# The kernel's copies go, ours stay.
	drop_source_cache
	expect_same_trees "$SOURCE" "$MOUNT"
	expect "hits grow" "$(stat_value cache_hits)" -gt "$hits"
	expect "no sum is wrong" "$(stat_value checksum_mismatches)" -eq 0
}

make_odd_tree "$SOURCE"
for mode in auto on off; do
	drop_source_cache
	mount_source "kernel_cache=$mode"
	read_twice
	unmount
done
