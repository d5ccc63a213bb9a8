#!/bin/bash
#
# Eight readers of one large file, each with its own block size, speed and
# order, all get the right bytes out of a cache that holds a fraction of it,
# and neither the cache nor the process outgrows its limit.

. "$(dirname "$0")/../lib/mount.sh"
setup

size=$((4 << 30)) cache=$((256 << 20))
if [[ -n $AHEADFS_QUICK ]]; then
	size=$((512 << 20)) cache=$((64 << 20))
fi
slow=$((size / 16)) slower=$((size / 24))

pattern write "$SOURCE/file" 14 "$size"
drop_source_cache
mount_source "cache_size=$cache"

readers=()
start() {
	start_reader "$MOUNT/file" 14 "$@" >"$TEST_DIR/read.${#readers[@]}"
	readers+=("$READER")
}

start block=131072
start block=1048576 "rate=$slow"
start block=4096 "part=$((size / 4))"
start block=100000 "rate=$slower"
start block=131072 order=backward
start block=65536 order=strided
start block=262144 order=scattered
start block=999999 order=backward "rate=$slow"

# One reading of the file gives both numbers of one moment.
expect_within_limit() {
	awk '$1 == "cache_bytes" { used = $2 }
		$1 == "cache_limit_bytes" { limit = $2 }
		END { print used " of " limit; exit !(limit && used <= limit) }
		' "$MOUNT/.aheadfs/stats" >"$TEST_DIR/limit" ||
		fail "the cache is above its limit: $(cat "$TEST_DIR/limit")"
}

have_ended() {
	local reader
	expect_within_limit
	for reader in "${readers[@]}"; do
		process_has_ended "$reader" || return 1
	done
}

PATIENCE_SECONDS=280
wait_until "all readers are done" have_ended
for reader in "${readers[@]}"; do
	wait "$reader" || fail "a reader got wrong bytes"
done

expect "the limit is what was asked for" \
	"$(stat_value cache_limit_bytes)" -eq "$cache"
expect "pages were evicted" "$(stat_value evictions)" -gt 0
expect "no sum is wrong" "$(stat_value checksum_mismatches)" -eq 0
if ! is_sanitized; then
	peak=$(awk '$1 == "VmHWM:" { print $2 * 1024 }' "/proc/$DAEMON/status")
	expect "peak memory of the process" "$peak" -lt $((cache + (128 << 20)))
fi
unmount
