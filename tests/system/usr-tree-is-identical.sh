#!/bin/bash
#
# The machine's own files, tens of thousands of them, read the same through the
# mount as they are, twice, the second time out of our cache.

. "$(dirname "$0")/../lib/mount.sh"
setup

least=50000
[[ -z $AHEADFS_QUICK ]] || least=1000
tree=
# The smallest that is large enough.
for candidate in /usr/include /usr/share /usr/lib /usr; do
	if [[ -d $candidate && -z $tree &&
		$(find "$candidate" -xdev -type f | wc -l) -ge $least ]]; then
		tree=$candidate
	fi
done
[[ -n $tree ]] || skip "not even /usr has $least files"

SOURCE=$tree
mount_source
expect_same_trees "$SOURCE" "$MOUNT"
hits=$(stat_value cache_hits)
drop_source_cache
expect_same_trees "$SOURCE" "$MOUNT"
expect "hits grow" "$(stat_value cache_hits)" -gt "$hits"
expect "no sum is wrong" "$(stat_value checksum_mismatches)" -eq 0
expect "nothing malformed" "$(stat_value requests_malformed)" -eq 0
unmount
