#!/bin/bash
#
# A read that starts after a write has returned sees that write, however many
# readers fetch, evict and join pages meanwhile.  A page being read from the
# disk while a write passes by must not enter the cache with the old bytes.

. "$(dirname "$0")/../lib/mount.sh"
setup

# Twice the cache, so that pages come and go all the time.
pages=8192
writes=20000
[[ -z $AHEADFS_QUICK ]] || writes=4000

truncate -s $((pages * 4096)) "$SOURCE/file"
for mode in off on; do
	: >"$SOURCE/file"
	truncate -s $((pages * 4096)) "$SOURCE/file"
	mount_source "kernel_cache=$mode,cache_size=16M"
	"$AHEADFS_HELPERS/generations" "$MOUNT/file" "$SOURCE/file" \
		"$pages" "$writes" 3
	expect_same "$SOURCE/file" "$MOUNT/file"
	unmount
done
