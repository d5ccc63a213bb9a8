#!/bin/bash
#
# Many processes that create, rename, link and remove in the same directories
# leave what they would leave on SOURCE, and a listing meanwhile shows each
# name that stays exactly once.

. "$(dirname "$0")/../lib/mount.sh"
setup

processes=6
rounds=25

# Names belong to one process each, the directories to all.
churn() {
	local top=$1 me=$2 i
	for ((i = 0; i < rounds; i++)); do
		echo "$me-$i" >"$top/shared/$me-$i"
		ln "$top/shared/$me-$i" "$top/links/$me-$i"
		mv "$top/shared/$me-$i" "$top/shared/$me-$i-renamed"
		mkdir "$top/shared/$me-directory-$i"
		ln -s "../$me-$i" "$top/shared/$me-directory-$i/link"
		mv "$top/shared/$me-directory-$i" "$top/links/$me-d-$i"
		if ((i % 3 == 0)); then
			rm "$top/links/$me-$i"
			rm -r "$top/links/$me-d-$i"
		fi
		if ((i % 5 == 0)); then
			mv "$top/shared/$me-$i-renamed" "$top/shared/$me-last"
		fi
	done
}

watch_listing() {
	local i count
	for ((i = 0; i < 100; i++)); do
		# shellcheck disable=SC2012 # what readdir gives is the point
		count=$(ls -U "$1/steady" | sort | uniq -c |
			awk '$1 == 1' | wc -l)
		[[ $count -eq 500 ]] || fail "the listing has $count names"
		ls -l "$1/shared" "$1/links" >/dev/null 2>&1 || true
	done
}

run_all() {
	local top=$1 pid i
	local -a pids=()
	mkdir "$top/shared" "$top/links" "$top/steady"
	for ((i = 0; i < 500; i++)); do
		: >"$top/steady/name-$i"
	done
	for ((i = 0; i < processes; i++)); do
		churn "$top" "$i" &
		pids+=($!)
	done
	watch_listing "$top" &
	pids+=($!)
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
}

names() {
	(cd "$1" && find . -printf '%P %y %m %n %l\n' | sort)
}

mkdir "$TEST_DIR/plain"
run_all "$TEST_DIR/plain"
mount_source
run_all "$MOUNT"
diff <(names "$TEST_DIR/plain") <(names "$MOUNT") ||
	fail "the mount has other names than a plain directory"
expect_same_trees "$SOURCE" "$MOUNT"
unmount
