#!/bin/bash
#
# Bytes that change on the disk without anybody having written them are found
# when their pages are read again, on a filesystem that would deliver them as
# good: the reader gets EIO, the event is counted, every other page stays
# readable.  This is what checksums are for.

. "$(dirname "$0")/../lib/mount.sh"
setup

make_disk ext4 256M
page_count=8192
pattern write "$SOURCE/file" 6 $((page_count * 4096))
cp "$SOURCE/file" "$TEST_DIR/right"
sync

# One in each group of 64 pages, whose sums are kept together.
mapfile -t bad_pages < <(seq 20 64 "$page_count")
# Sums have a budget; two groups may want the same place in it, and one of them
# is then unknown.  With the budget of a larger cache that is rare.
unknown_max=8

flip_bad_pages() {
	python3 "$TESTS_LIB/flip.py" "$DISK_IMAGE" "$TEST_DIR/right" \
		"${bad_pages[@]}"
	blockdev --flushbufs "$DISK_DEVICE"
	drop_source_cache
}

cache_fits() {
	[[ $(stat_value cache_bytes) -le 16777216 ]]
}

# Most of the file leaves the cache.
shrink_cache() {
	echo cache_size=16M >"$MOUNT/.aheadfs/config"
	wait_until "the cache has shrunk" cache_fits
}

mount_source kernel_cache=off,cache_size=256M
# The sums live in memory, with the file: keep it open.
exec 7<"$MOUNT/file"
expect_same "$TEST_DIR/right" "$MOUNT/file"
expect "sums are learned" "$(stat_value checksum_learned)" -ge "$page_count"
shrink_cache
expect_same "$TEST_DIR/right" "$MOUNT/file"
expect "sums are verified" "$(stat_value checksum_verified)" \
	-ge $((page_count / 4))
expect "all is well so far" "$(stat_value checksum_mismatches)" -eq 0

flip_bad_pages
read -r errors wrong < <(python3 "$TESTS_LIB/count_pages.py" \
	"$MOUNT/file" "$TEST_DIR/right")
expect "bad pages found" "$errors" -ge $((${#bad_pages[@]} / 4))
expect "and no good ones" "$errors" -le "${#bad_pages[@]}"
expect "bad pages delivered" "$wrong" -le "$unknown_max"
expect "mismatches" "$(stat_value checksum_mismatches)" -ge "$errors"
expect_error "Input/output error" cat "$MOUNT/file"

# Who prefers wrong bytes to none can have them, and they are counted still.
echo on_corruption=log >"$MOUNT/.aheadfs/config"
before=$(stat_value checksum_mismatches)
cat "$MOUNT/file" >/dev/null || fail "on_corruption=log gives an error"
expect "mismatches are counted" "$(stat_value checksum_mismatches)" \
	-gt "$before"
exec 7<&-
unmount

# Healed below, it is good for a new mount.
flip_bad_pages
mount_source kernel_cache=off
expect_same "$TEST_DIR/right" "$MOUNT/file"
expect "no mismatch" "$(stat_value checksum_mismatches)" -eq 0
unmount
