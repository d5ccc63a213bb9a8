#!/bin/bash
#
# A file that somebody changes on SOURCE, behind the mount, is read as it is
# now by whoever opens it afterwards: also when its size is the same and its
# modification time was set back.  Serving yesterday's bytes is worse than
# serving slowly.

. "$(dirname "$0")/../lib/mount.sh"
setup

old_time='2020-01-01 00:00:00'

same_size_same_time() {
	pattern write "$SOURCE/file" "$1" 300000
	touch -d "$old_time" "$SOURCE/file"
}

one_byte() {
	printf '%d' $(($1 % 10)) |
		dd of="$SOURCE/file" bs=1 seek=150000 conv=notrunc status=none
	touch -d "$old_time" "$SOURCE/file"
}

grown() {
	pattern write "$SOURCE/file" "$1" 400000
}

shrunk() {
	pattern write "$SOURCE/file" "$1" 5000
}

renamed_over() {
	pattern write "$SOURCE/new" "$1" 300000
	touch -d "$old_time" "$SOURCE/new"
	mv "$SOURCE/new" "$SOURCE/file"
}

recreated() {
	rm "$SOURCE/file"
	pattern write "$SOURCE/file" "$1" 300000
	touch -d "$old_time" "$SOURCE/file"
}

is_same() {
	cmp -s "$SOURCE/file" "$MOUNT/file"
}

changes=(same_size_same_time one_byte grown shrunk renamed_over recreated)

for mode in off on auto; do
	# Without timeouts the very next open sees it.
	mount_source "kernel_cache=$mode,attr_timeout=0,entry_timeout=0"
	seed=1
	for change in "${changes[@]}"; do
		same_size_same_time $((seed++))
		# Twice: the second read may come from any cache.
		expect_same "$SOURCE/file" "$MOUNT/file"
		expect_same "$SOURCE/file" "$MOUNT/file"
		"$change" $((seed++))
		is_same || fail "$change is not seen with kernel_cache=$mode"
	done
	expect "changes are counted" "$(stat_value identity_changes)" -gt 0
	unmount

	# With them, as soon as they have passed.
	mount_source "kernel_cache=$mode"
	for change in "${changes[@]}"; do
		same_size_same_time $((seed++))
		wait_until "the start of $change is seen" is_same
		"$change" $((seed++))
		wait_until "$change is seen with kernel_cache=$mode" is_same
	done
	unmount
done
