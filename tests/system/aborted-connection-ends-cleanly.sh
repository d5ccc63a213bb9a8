#!/bin/bash
#
# When somebody aborts the connection under us, as one does with a filesystem
# that hangs, readers get an error and aheadfs ends by itself: it does not
# crash over files that are still open, for the kernel never closes them then.

. "$(dirname "$0")/../lib/mount.sh"
setup

mkdir "$TEST_DIR/connections"
mount -t fusectl none "$TEST_DIR/connections" ||
	skip "the kernel has no fusectl"
pattern write "$SOURCE/file" 17 33554432

has_read() {
	[[ $(stat_value read_bytes) -gt 0 ]]
}

mount_source kernel_cache=off
start_reader "$MOUNT/file" 17 times=0 >/dev/null 2>&1
wait_until "the reader reads" has_read
echo 1 >"$TEST_DIR/connections/$(sweep_fuse_minors "$TEST_DIR")/abort"
wait_until "the reader has got an error" process_has_ended "$READER"
if wait "$READER"; then
	fail "a reader succeeded without a filesystem"
fi
wait_until "the daemon ends" process_has_ended "$DAEMON"
# Nothing that is mounted must stay behind, whoever ended it.
umount --lazy "$MOUNT" 2>/dev/null || true
expect_clean_end
