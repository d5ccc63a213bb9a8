#!/bin/bash
#
# When SOURCE cannot read a block, the reader of that page gets EIO, every time,
# and every other page of the file reads right.  Nothing is cached from the
# error: once SOURCE is well again, so is the mount.

. "$(dirname "$0")/../lib/mount.sh"
setup

# btrfs says EIO when a block does not match the filesystem's own checksum.
make_disk btrfs 256M
page_count=2048
bad_page=1025
pattern write "$SOURCE/file" 5 $((page_count * 4096))
cp "$SOURCE/file" "$TEST_DIR/right"
sync

flip_bad_page() {
	python3 "$TESTS_LIB/flip.py" "$DISK_IMAGE" "$TEST_DIR/right" "$bad_page"
	blockdev --flushbufs "$DISK_DEVICE"
	drop_source_cache
}

expect_bad_page() {
	python3 "$TESTS_LIB/expect_pages.py" "$MOUNT/file" "$TEST_DIR/right" \
		"$bad_page"
}

flip_bad_page
expect_error "Input/output error" cat "$SOURCE/file"
for mode in off on; do
	mount_source "kernel_cache=$mode"
	expect_bad_page
	expect_bad_page
	expect_error "Input/output error" cat "$MOUNT/file"
	expect "errors are counted" "$(stat_value io_errors)" -gt 0
	expect "it is not our checksum that failed" \
		"$(stat_value checksum_mismatches)" -eq 0

	# Flipped once more, the byte is right again.
	flip_bad_page
	expect_same "$TEST_DIR/right" "$MOUNT/file"
	unmount
	flip_bad_page
done
