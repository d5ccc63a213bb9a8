#!/bin/bash
#
# Bytes that change on the disk without anybody having written them are found
# when their pages are read again, on a filesystem that would deliver them as
# good: the reader gets EIO, the event is counted, every other page stays
# readable, and no wrong byte is delivered.  This is what checksums are for.

. "$(dirname "$0")/../lib/mount.sh"
setup

make_disk ext4 256M
# Four times the cache, so that three of four pages come from the disk.
page_count=16384
pattern write "$SOURCE/file" 6 $((page_count * 4096))
cp "$SOURCE/file" "$TEST_DIR/right"
sync

mapfile -t bad_pages < <(seq 100 256 "$page_count")
flip_bad_pages() {
	python3 "$TESTS_LIB/flip.py" "$DISK_IMAGE" "$TEST_DIR/right" \
		"${bad_pages[@]}"
	blockdev --flushbufs "$DISK_DEVICE"
	drop_source_cache
}

mount_source kernel_cache=off,cache_size=16M
# The sums live in memory, with the file: keep it open.
exec 7<"$MOUNT/file"
expect_same "$TEST_DIR/right" "$MOUNT/file"
expect "sums are learned" "$(stat_value checksum_learned)" -ge "$page_count"
expect_same "$TEST_DIR/right" "$MOUNT/file"
expect "sums are verified" "$(stat_value checksum_verified)" \
	-ge $((page_count / 2))
expect "all is well so far" "$(stat_value checksum_mismatches)" -eq 0

flip_bad_pages
errors=$(python3 "$TESTS_LIB/expect_never_wrong.py" "$MOUNT/file" \
	"$TEST_DIR/right")
expect "bad pages found" "$errors" -ge $((${#bad_pages[@]} / 2))
expect "and no good ones" "$errors" -le "${#bad_pages[@]}"
expect "mismatches" "$(stat_value checksum_mismatches)" -ge "$errors"
expect_error "Input/output error" cat "$MOUNT/file"

# Who prefers wrong bytes to none can have them, and they are counted still.
echo on_corruption=log >"$MOUNT/.aheadfs/config"
before=$(stat_value checksum_mismatches)
cat "$MOUNT/file" >/dev/null || fail "on_corruption=log gives an error"
expect "mismatches are counted" "$(stat_value checksum_mismatches)" \
	-gt "$before"
echo on_corruption=eio >"$MOUNT/.aheadfs/config"
exec 7<&-
unmount

# Healed below, it is good for a new mount.
flip_bad_pages
mount_source kernel_cache=off,cache_size=16M
expect_same "$TEST_DIR/right" "$MOUNT/file"
expect "no mismatch" "$(stat_value checksum_mismatches)" -eq 0
unmount
