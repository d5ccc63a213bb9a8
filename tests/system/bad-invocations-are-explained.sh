#!/bin/bash
#
# What cannot work is refused with one line that says why, and a non-zero exit
# status, before anything is mounted: nobody should have to guess from a usage
# text, or find out later that an option was ignored.

. "$(dirname "$0")/../lib/mount.sh"
setup

refuses() {
	local pattern=$1 status=0 lines
	shift
	timeout 20 "$AHEADFS" "$@" >"$TEST_DIR/out" 2>"$TEST_DIR/err" ||
		status=$?
	[[ $status -ne 0 && $status -ne 124 ]] ||
		fail "exit status $status of: aheadfs $*"
	lines=$(wc -l <"$TEST_DIR/err")
	[[ $lines -eq 1 ]] ||
		fail "$lines lines from: aheadfs $*: $(cat "$TEST_DIR/err")"
	grep -Eqi -- "$pattern" "$TEST_DIR/err" || fail "aheadfs $*:" \
		"no '$pattern' in: $(cat "$TEST_DIR/err")"
	is_not_mounted "$MOUNT" || [[ -n $DAEMON ]] ||
		fail "mounted after all: aheadfs $*"
}

: >"$TEST_DIR/plain file"
mkdir "$TEST_DIR/with-control"
: >"$TEST_DIR/with-control/.aheadfs"

refuses 'SOURCE|usage'
refuses 'MOUNTPOINT|usage' "$SOURCE"
refuses 'usage|argument|extra' "$SOURCE" "$MOUNT" extra
refuses 'usage|option' -Z "$SOURCE" "$MOUNT"
refuses 'no-such-dir.*No such file' "$TEST_DIR/no-such-dir" "$MOUNT"
refuses 'no-such-dir.*No such file' "$SOURCE" "$TEST_DIR/no-such-dir"
refuses 'plain file.*Not a directory' "$TEST_DIR/plain file" "$MOUNT"
refuses 'plain file.*Not a directory' "$SOURCE" "$TEST_DIR/plain file"
refuses 'no_such_option' -o no_such_option "$SOURCE" "$MOUNT"
refuses 'no_such_option' -o no_such_option=1 "$SOURCE" "$MOUNT"
refuses 'cache_size' -o cache_size=1 "$SOURCE" "$MOUNT"
refuses 'cache_size' -o cache_size=12Q "$SOURCE" "$MOUNT"
refuses 'cache_size' -o cache_size=-1 "$SOURCE" "$MOUNT"
refuses 'cache_size' -o cache_size= "$SOURCE" "$MOUNT"
refuses 'cache_size' -o cache_size "$SOURCE" "$MOUNT"
refuses 'cache_size' -o cache_size=99999999999999999999 "$SOURCE" "$MOUNT"
refuses 'io_method.*io_uring' -o io_method=magic "$SOURCE" "$MOUNT"
refuses 'io_max_concurrency' -o io_max_concurrency=0 "$SOURCE" "$MOUNT"
refuses 'attr_timeout' -o attr_timeout=soon "$SOURCE" "$MOUNT"
# One of ours among good ones.
refuses 'kernel_cache' -o cache_size=64M,kernel_cache=1 "$SOURCE" "$MOUNT"
# The remedy is part of the explanation.
refuses 'control=' "$TEST_DIR/with-control" "$MOUNT"

mount_source
refuses 'already' "$SOURCE" "$MOUNT"
refuses 'already' -f "$SOURCE" "$MOUNT"
unmount

"$AHEADFS" -V | grep -q '[0-9]\.[0-9]' || fail "-V shows no version"
"$AHEADFS" -h >"$TEST_DIR/help" || fail "-h fails"
grep -q cache_size "$TEST_DIR/help" || fail "-h shows no options"
