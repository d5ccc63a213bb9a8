#!/bin/bash
#
# A directory can be mounted over itself, and one that contains the mount point
# does not swallow its own tail: aheadfs reaches SOURCE by a descriptor from
# before the mount and never enters its own mount, where it would wait for
# itself.

. "$(dirname "$0")/../lib/mount.sh"
setup

pattern write "$SOURCE/file" 13 1000001
mkdir "$SOURCE/directory"

# Over itself.
separate=$MOUNT
MOUNT=$SOURCE
mount_source
pattern read "$MOUNT/file" 13 >/dev/null
expect "it comes from us" "$(stat_value read_bytes)" -gt 0
echo new >"$MOUNT/directory/new"
unmount
[[ $(cat "$SOURCE/directory/new") == new ]] || fail "the write is lost"

# Inside itself: whatever stands at the place of the mount, nobody hangs.
MOUNT=$SOURCE/inside
mkdir "$MOUNT"
mount_source
pattern read "$MOUNT/file" 13 >/dev/null
timeout 30 find "$MOUNT" -ls >"$TEST_DIR/found" 2>&1 ||
	[[ $? -ne 124 ]] || fail "find does not end"
! grep -q inside/inside/directory "$TEST_DIR/found" ||
	fail "the mount contains itself"
timeout 30 rmdir "$MOUNT/inside" 2>/dev/null ||
	[[ $? -ne 124 ]] || fail "rmdir of the mount point does not end"
unmount
rmdir "$SOURCE/inside"
MOUNT=$separate
