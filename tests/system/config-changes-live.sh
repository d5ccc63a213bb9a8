#!/bin/bash
#
# A live option changes while the mount is in use, and what is no option, no
# value or not live is refused with the right error and changes nothing.

. "$(dirname "$0")/../lib/mount.sh"
setup

config=$MOUNT/.aheadfs/config

expect_refused() {
	local before
	before=$(cat "$config")
	# One write(2), whose error the shell reports.
	expect_error "$1" bash -c 'printf "%s\n" "$1" >"$2"' bash "$2" \
		"$config"
	[[ $(cat "$config") == "$before" ]] || fail "$2 changed something"
}

cache_fits() {
	[[ $(stat_value cache_bytes) -le $1 ]]
}

pattern write "$SOURCE/file" 11 134217728
mount_source kernel_cache=off,cache_size=128M
start_reader "$MOUNT/file" 11 times=0 >/dev/null
cache_is_large() {
	[[ $(stat_value cache_bytes) -gt 67108864 ]]
}
wait_until "the cache has grown" cache_is_large

echo cache_size=32M >"$config"
expect "the limit follows" "$(stat_value cache_limit_bytes)" -eq 33554432
wait_until "the cache has shrunk" cache_fits 33554432
# Under load it stays there, and grows when it may.
for ((i = 0; i < 50; i++)); do
	cache_fits 33554432 || fail "the cache is above its limit"
done
echo cache_size=128M >"$config"
wait_until "the cache has grown again" cache_is_large

expect_refused "Invalid argument" cache_size=1
expect_refused "Invalid argument" cache_size=big
expect_refused "Invalid argument" cache_size=
expect_refused "Invalid argument" kernel_cache=perhaps
expect_refused "Invalid argument" cache_size
expect_refused "No such file or directory" no_such_option=1
expect_refused "Operation not permitted" io_method=sync
expect_refused "Operation not permitted" nofile=100

grep -q '^cache_size=128M' "$config" ||
	grep -q '^cache_size 128M' "$config" ||
	fail "the config file does not show the value"

kill "$READER"
wait "$READER" || true
unmount

# From large to smallest: what a large cache needs for itself must not take all
# of a small one.
mount_source kernel_cache=off,cache_size=1G
pattern read "$MOUNT/file" 11 >/dev/null
echo cache_size=16M >"$config"
wait_until "the cache has shrunk" cache_fits 16777216
start_reader "$MOUNT/file" 11 >/dev/null
wait_until "a small cache serves" process_has_ended "$READER"
wait "$READER" || fail "a small cache does not serve"
expect "it caches still" "$(stat_value cache_pages)" -gt 1024
unmount
