#!/bin/bash
#
# SIGTERM, SIGINT, umount and fusermount3 -u all end aheadfs with exit status
# 0, nothing mounted and no process left, also while somebody reads: a service
# manager must be able to stop it.

. "$(dirname "$0")/../lib/mount.sh"
setup

pattern write "$SOURCE/file" 12 33554432

keep_reading() {
	start_reader "$MOUNT/file" 12 times=0 >/dev/null 2>&1
	wait_until "the reader reads" has_read
}

has_read() {
	[[ $(stat_value read_bytes) -gt 0 ]]
}

for signal in TERM INT; do
	mount_source kernel_cache=off
	kill "-$signal" "$DAEMON"
	expect_clean_end

	mount_source kernel_cache=off
	keep_reading
	kill "-$signal" "$DAEMON"
	expect_clean_end
	wait_until "the reader has got an error" process_has_ended "$READER"
	if wait "$READER"; then
		fail "a reader succeeded without a filesystem"
	fi
done

for command in umount "fusermount3 -u"; do
	mount_source
	cat "$MOUNT/file" >/dev/null
	$command "$MOUNT"
	expect_clean_end

	mount_source_daemonized
	cat "$MOUNT/file" >/dev/null
	$command "$MOUNT"
	expect_clean_end
done

# A lazy unmount lets who reads go on, and ends with him.
mount_source kernel_cache=off
keep_reading
umount --lazy "$MOUNT"
kill -0 "$READER" || fail "the reader died"
kill "$READER"
wait "$READER" || true
expect_clean_end
