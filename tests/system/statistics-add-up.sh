#!/bin/bash
#
# The numbers add up: read_bytes is what the readers read, and every page asked
# for was a hit, a miss or a join.  Whoever tunes by these numbers must be able
# to trust them to the last page.

. "$(dirname "$0")/../lib/mount.sh"
setup

# Sums up, in the order of what `pattern read` prints.
requests=0 bytes=0 pages=0

add_up() {
	local r b p
	while read -r r b p; do
		requests=$((requests + r))
		bytes=$((bytes + b))
		pages=$((pages + p))
	done
}

expect_sums() {
	local found
	found=$(($(stat_value cache_hits) + $(stat_value cache_misses) +
		$(stat_value cache_joins)))
	expect "reads after $1" "$(stat_value reads)" -eq "$requests"
	expect "bytes after $1" "$(stat_value read_bytes)" -eq "$bytes"
	expect "pages after $1" "$found" -eq "$pages"
}

pattern write "$SOURCE/file" 3 20000001
# Every read reaches us, and no request is larger than what FUSE carries.
mount_source kernel_cache=off,cache_size=16M

for block in 4096 5000 65536 131072; do
	for order in forward backward strided scattered; do
		pattern read "$MOUNT/file" 3 "block=$block" "order=$order" \
			>"$TEST_DIR/read"
		add_up <"$TEST_DIR/read"
		expect_sums "$order, block $block"
	done
done

# Side by side they join each other's I/Os.
readers=()
for order in forward forward forward backward strided; do
	start_reader "$MOUNT/file" 3 block=30000 "order=$order" \
		>"$TEST_DIR/read.${#readers[@]}"
	readers+=("$READER")
done
for reader in "${readers[@]}"; do
	wait "$reader"
done
add_up < <(cat "$TEST_DIR"/read.*)
expect_sums "parallel readers"

expect "every miss and every page read ahead was part of an I/O" \
	"$(stat_value io_pages)" -ge "$(stat_value cache_misses)"
expect "nothing is in flight at rest" "$(stat_value io_inflight)" -eq 0
unmount
