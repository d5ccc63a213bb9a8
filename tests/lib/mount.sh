# shellcheck shell=bash
#
# mount.sh - what every test with a real mount needs; sourced
#
#	. "$(dirname "$0")/../lib/mount.sh"
#	setup
#	echo hello >"$SOURCE/file"
#	mount_source kernel_cache=off
#	expect_same "$SOURCE/file" "$MOUNT/file"
#	unmount
#
# A test has TEST_DIR to itself, with SOURCE, MOUNT and LOG in it.  It passes
# by reaching its end; whatever happens, nothing of it stays mounted.  Events
# are ordered by what is published (statistics, files, mountinfo), never by
# guessing how long something takes: wait_until polls, and gives up.
#
# From the environment, as tests/run and meson set it:
#	AHEADFS			the program under test
#	AHEADFS_HELPERS		where the programs of tests/lib were built
#	AHEADFS_IO_METHOD	how it shall read, if the test does not care
#	AHEADFS_QUICK		if not empty: smaller files
set -eEuo pipefail
export LC_ALL=C

TESTS_LIB=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
TOP=$(dirname "$(dirname "$TESTS_LIB")")
# shellcheck source=sweep.sh
. "$TESTS_LIB/sweep.sh"

AHEADFS=${AHEADFS:-$TOP/build/gcc/aheadfs}
AHEADFS_HELPERS=${AHEADFS_HELPERS:-$(dirname "$AHEADFS")/tests}
AHEADFS_IO_METHOD=${AHEADFS_IO_METHOD:-}
AHEADFS_QUICK=${AHEADFS_QUICK:-}

# Long enough for a loaded machine, short enough to leave a log.
PATIENCE_SECONDS=30

DAEMON=
DAEMON_IS_CHILD=

# Files of bytes that every reader can check by himself; see pattern.c.
pattern() {
	"$AHEADFS_HELPERS/pattern" "$@"
}

# The same, reading in the background as READER, which may be killed.
start_reader() {
	"$AHEADFS_HELPERS/pattern" read "$@" &
	# shellcheck disable=SC2034 # for the test
	READER=$!
}

fail() {
	trap - ERR
	echo "FAILED: $*" >&2
	exit 1
}

# Only for what this kernel or machine cannot do: say what is missing.
skip() {
	echo "skipped: $*"
	exit 77
}

# expect TEXT EXPRESSION...: as in expect "grew" "$after" -gt "$before"
expect() {
	local text=$1
	shift
	[ "$@" ] || fail "$text: [ $* ]"
}

expect_same() {
	cmp -- "$1" "$2" || fail "$1 and $2 differ"
}

# The names, contents, owners, modes, times and links of two trees.  diff takes
# any two fifos for different: *.special is compared by attributes only.
expect_same_trees() {
	diff -r --no-dereference --exclude='*.special' -- "$1" "$2" \
		>"$TEST_DIR/diff" 2>&1 || {
		head -n 20 "$TEST_DIR/diff" >&2
		fail "$1 and $2 differ"
	}
	diff <(tree_attributes "$1") <(tree_attributes "$2") \
		>"$TEST_DIR/diff" || {
		head -n 20 "$TEST_DIR/diff" >&2
		fail "the attributes of $1 and $2 differ"
	}
}

tree_attributes() {
	(cd "$1" && find . -printf '%P %y %m %U:%G %n %s %T@ %l\n' | sort)
}

# expect_error TEXT COMMAND...: it fails, and what it says contains TEXT.
expect_error() {
	local text=$1 output
	shift
	if output=$("$@" 2>&1); then
		fail "should have failed with '$text': $*"
	fi
	[[ $output == *"$text"* ]] ||
		fail "should have failed with '$text': $*: $output"
}

# wait_until WHAT COMMAND...: polls until the command succeeds.
wait_until() {
	local what=$1 deadline=$((SECONDS + PATIENCE_SECONDS))
	shift
	until "$@"; do
		if ((SECONDS >= deadline)); then
			fail "gave up waiting until $what"
		fi
		sleep 0.02
	done
}

setup() {
	[[ $EUID -eq 0 ]] || skip "mounting loop devices and dropping caches" \
		"needs root"
	[[ -e /dev/fuse ]] || skip "the kernel has no /dev/fuse"
	[[ -x $AHEADFS ]] || fail "no program to test: $AHEADFS"

	TEST_DIR=${AHEADFS_TEST_DIR:-}
	if [[ -z $TEST_DIR ]]; then
		TEST_DIR=$(mktemp -d "${TMPDIR:-/tmp}/aheadfs-test.XXXXXX")
		export AHEADFS_TEST_DIR=$TEST_DIR
	fi
	chmod 755 "$TEST_DIR"
	SOURCE=$TEST_DIR/source
	MOUNT=$TEST_DIR/mount
	LOG=$TEST_DIR/log
	mkdir "$SOURCE" "$MOUNT"
	: >"$LOG"

	# Reports go to files, because a daemon has no stderr.
	mkdir -m 1777 "$TEST_DIR/sanitizer"
	local report=log_path=$TEST_DIR/sanitizer/report
	export ASAN_OPTIONS=$report:detect_leaks=1
	export UBSAN_OPTIONS=$report:halt_on_error=1:print_stacktrace=1

	trap cleanup EXIT
	trap 'exit 130' INT TERM
	trap 'echo "FAILED: $0:$LINENO: ${BASH_COMMAND%%$'"'\\n'"'*}" >&2' ERR
}

cleanup() {
	local status=$?
	trap - EXIT ERR
	set +e
	if [[ $status -eq 0 && -n $DAEMON ]]; then
		(set -e; unmount)
		status=$?
	fi
	if [[ $status -eq 0 ]]; then
		expect_nothing_serving || status=1
	fi
	expect_no_report || status=1
	if [[ $status -ne 0 && $status -ne 77 ]]; then
		echo "--- end of the daemon's log:"
		tail -n 40 "$LOG"
	fi
	sweep "$TEST_DIR"
	exit "$status"
}

# Loop devices and plain mounts are swept for the test; what is under test is
# to end by itself.
expect_nothing_serving() {
	local pid
	for pid in $(sweep_processes "$TEST_DIR"); do
		if [[ "/proc/$pid/exe" -ef "$AHEADFS" ]]; then
			echo "FAILED: process $pid still runs"
			return 1
		fi
	done
	if [[ -n $(sweep_fuse_minors "$TEST_DIR") ]]; then
		echo "FAILED: something is still mounted"
		return 1
	fi
}

# A sanitizer's report fails the test, whatever the test thought.
expect_no_report() {
	local report
	for report in "$TEST_DIR"/sanitizer/*; do
		if [[ -e $report ]]; then
			echo "FAILED: the sanitizer has something to say:"
			head -n 60 "$report"
			return 1
		fi
	done
}

is_mounted() {
	local target
	local -a fields
	while read -r -a fields; do
		printf -v target '%b' "${fields[4]}"
		if [[ $target == "$1" && " ${fields[*]} " =~ $fuse_type ]]; then
			return 0
		fi
	done </proc/self/mountinfo
	return 1
}

is_not_mounted() {
	! is_mounted "$1"
}

process_has_ended() {
	[[ ! -e /proc/$1 ]] || grep -qs '^State:.[ZX]' "/proc/$1/status"
}

# Prints the options of a test together with those of the test run.
full_options() {
	local options=${1:-}
	if [[ -n $AHEADFS_IO_METHOD && $options != *io_method=* ]]; then
		options=io_method=$AHEADFS_IO_METHOD${options:+,$options}
	fi
	echo "$options"
}

is_mounted_or_dead() {
	is_mounted "$MOUNT" || process_has_ended "$DAEMON"
}

# mount_source [OPTIONS]: in the foreground, as a child of ours.
mount_source() {
	local options
	options=$(full_options "${1:-}")
	# A shell without job control starts its children deaf to SIGINT.
	env --default-signal=INT,QUIT "$AHEADFS" -f ${options:+-o "$options"} \
		"$SOURCE" "$MOUNT" >>"$LOG" 2>&1 &
	DAEMON=$!
	DAEMON_IS_CHILD=1
	wait_until "$MOUNT is mounted" is_mounted_or_dead
	process_has_ended "$DAEMON" && fail "aheadfs did not mount: $options"
	return 0
}

# The same without -f: mounted when the command returns.
mount_source_daemonized() {
	local options
	options=$(full_options "${1:-}")
	"$AHEADFS" ${options:+-o "$options"} "$SOURCE" "$MOUNT" >>"$LOG" 2>&1 ||
		fail "aheadfs did not mount: $options"
	is_mounted "$MOUNT" || fail "aheadfs returned before it was mounted"
	DAEMON=$(daemon_of "$MOUNT")
	DAEMON_IS_CHILD=
	[[ -n $DAEMON ]] || fail "mounted, but there is no process"
}

# The process that serves a mount point, found by its command line.
daemon_of() {
	local pid
	for pid in $(sweep_processes "$TEST_DIR"); do
		if grep -qzFx -- "$1" "/proc/$pid/cmdline" 2>/dev/null &&
			[[ "/proc/$pid/exe" -ef "$AHEADFS" ]]; then
			echo "$pid"
		fi
	done
}

unmount() {
	expect_asked_method
	umount "$MOUNT"
	expect_clean_end
}

# The daemon ends by itself, with status 0 and nothing mounted.
expect_clean_end() {
	local pid=$DAEMON status=0
	DAEMON=
	wait_until "the daemon ends" process_has_ended "$pid"
	if [[ -n $DAEMON_IS_CHILD ]]; then
		wait "$pid" || status=$?
	fi
	[[ $status -eq 0 ]] || fail "the daemon's exit status is $status"
	is_not_mounted "$MOUNT" || fail "$MOUNT is still mounted"
}

# Every I/O was performed by the method that this run is about.
expect_asked_method() {
	local method other
	if [[ -z $AHEADFS_IO_METHOD || ! -r $MOUNT/.aheadfs/stats ]]; then
		return 0
	fi
	method=${AHEADFS_IO_METHOD/io_uring/uring}
	for other in uring worker sync; do
		if [[ $other != "$method" ]]; then
			expect "no I/O by $other" \
				"$(stat_value "io_method_$other")" -eq 0
		fi
	done
}

stat_value() {
	awk -v name="$1" '$1 == name { print $2; found = 1 }
		END { exit !found }' "$MOUNT/.aheadfs/stats" ||
		fail "no statistic of the name $1"
}

# What the kernel has cached, of SOURCE and of MOUNT alike; our own cache
# keeps what it has.
drop_source_cache() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
}

is_sanitized() {
	nm -D "$AHEADFS" 2>/dev/null | grep -q __asan_init
}

# make_disk ext4|xfs|btrfs SIZE: a filesystem of its own at SOURCE, on a loop
# device over DISK_IMAGE.
make_disk() {
	local type=$1 size=$2
	DISK_IMAGE=$TEST_DIR/disk.image
	grep -qw "$type" /proc/filesystems || modprobe -q "$type" ||
		skip "the kernel has no $type"
	truncate -s "$size" "$DISK_IMAGE"
	case $type in
	ext4) mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 \
		"$DISK_IMAGE" ;;
	*) "mkfs.$type" -q "$DISK_IMAGE" >/dev/null 2>&1 ;;
	esac
	DISK_DEVICE=$(losetup --find --show "$DISK_IMAGE") ||
		skip "the kernel has no free loop device"
	mount -t "$type" "$DISK_DEVICE" "$SOURCE"
	[[ ! -d $SOURCE/lost+found ]] || rmdir "$SOURCE/lost+found"
}
