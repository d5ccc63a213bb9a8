#!/bin/bash
#
# The statistics are current whenever they are opened, also a hundred times in
# the middle of a scan: counters only grow, and they do grow.

. "$(dirname "$0")/../lib/mount.sh"
setup

pattern write "$SOURCE/file" 10 67108864
mount_source kernel_cache=off
start_reader "$MOUNT/file" 10 times=0 >/dev/null

# The gauges, which may fall again.
gauges=$(sed -n 's/^STAT(\([a-z_]*\), GAUGE,.*/\1/p' "$TOP/engine/stats.def" |
	tr '\n' ' ')

# Copies the numbers to FILE; true once read_bytes is above LEAST.
copy_moved() {
	cat "$MOUNT/.aheadfs/stats" >"$1"
	awk -v least="$2" '$1 == "read_bytes" && $2 > least { moved = 1 }
		END { exit !moved }' "$1"
}

expect_monotone() {
	awk -v gauges=" $gauges " '
		NR == FNR { before[$1] = $2; next }
		index(gauges, " " $1 " ") { next }
		$2 < before[$1] { print $1, before[$1], $2; fell = 1 }
		END { exit fell }' "$1" "$2" || fail "a counter fell"
}

copy_moved "$TEST_DIR/before" -1
for ((i = 0; i < 100; i++)); do
	least=$(awk '$1 == "read_bytes" { print $2 }' "$TEST_DIR/before")
	wait_until "read_bytes moves" copy_moved "$TEST_DIR/after" "$least"
	expect_monotone "$TEST_DIR/before" "$TEST_DIR/after"
	mv "$TEST_DIR/after" "$TEST_DIR/before"
done

kill "$READER"
wait "$READER" || true
unmount
