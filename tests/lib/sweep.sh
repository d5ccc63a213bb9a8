# shellcheck shell=bash
#
# sweep.sh - find and remove what a test left behind; sourced
#
# Everything a test makes lies below one directory of its own: mounts, images
# of loop devices, logs.  Its processes carry that directory as
# AHEADFS_TEST_DIR in their environment.  So what is left can be found without
# a list, whatever state the test died in.

# Mount points at or below DIR, the last mounted first.
sweep_mounts() {
	local dir=$1 target i
	local -a fields found=()
	while read -r -a fields; do
		# Spaces are written as \040.
		printf -v target '%b' "${fields[4]}"
		if [[ $target == "$dir" || $target == "$dir"/* ]]; then
			found+=("$target")
		fi
	done </proc/self/mountinfo
	for ((i = ${#found[@]} - 1; i >= 0; i--)); do
		echo "${found[i]}"
	done
}

# What mountinfo says of FUSE, but not of fusectl.
fuse_type=' - fuse[ .]'

# Device minors, which name the connections, of FUSE mounts below DIR.
sweep_fuse_minors() {
	local dir=$1 target
	local -a fields
	while read -r -a fields; do
		printf -v target '%b' "${fields[4]}"
		if [[ $target == "$dir"/* && " ${fields[*]} " =~ $fuse_type ]]
		then
			echo "${fields[2]#*:}"
		fi
	done </proc/self/mountinfo
}

# Loop devices whose image lies below DIR.
sweep_loops() {
	local dir=$1 device image
	while read -r device image; do
		if [[ $image == "$dir"/* ]]; then
			echo "$device"
		fi
	done < <(losetup --list --noheadings --output NAME,BACK-FILE)
}

# Processes that were started for DIR, but not this shell.
sweep_processes() {
	local dir=$1 pid
	for pid in /proc/[0-9]*; do
		pid=${pid#/proc/}
		if [[ $pid != "$$" && $pid != "$BASHPID" ]] &&
			grep -qzFx "AHEADFS_TEST_DIR=$dir" \
				"/proc/$pid/environ" 2>/dev/null &&
			! grep -q '^State:.[ZX]' "/proc/$pid/status" 2>/dev/null
		then
			echo "$pid"
		fi
	done
}

# One line for each thing that is left of DIR.
sweep_list() {
	local dir=$1 item
	while read -r item; do
		echo "still mounted: $item"
	done < <(sweep_mounts "$dir")
	while read -r item; do
		echo "still attached: $item"
	done < <(sweep_loops "$dir")
	while read -r item; do
		echo "still running: $item $(
			tr '\0' ' ' <"/proc/$item/cmdline" 2>/dev/null
		)"
	done < <(sweep_processes "$dir")
}

# Ends the connections of FUSE mounts below DIR, so that whoever is stuck in
# one gets an error and can be killed.
sweep_abort() {
	local dir=$1 connections=/sys/fs/fuse/connections minor own=
	local -a minors
	mapfile -t minors < <(sweep_fuse_minors "$dir")
	if [[ ${#minors[@]} -eq 0 ]]; then
		return 0
	fi
	if ! mountpoint -q "$connections"; then
		own=$(mktemp -d)
		connections=$own
		mount -t fusectl none "$own" || true
	fi
	for minor in "${minors[@]}"; do
		echo 1 >"$connections/$minor/abort" || true
	done 2>/dev/null
	if [[ -n $own ]]; then
		umount "$own" || true
		rmdir "$own"
	fi
}

# Removes all of it, by force where needed.
sweep() {
	local dir=$1 item
	sweep_abort "$dir"
	while read -r item; do
		kill -KILL "$item" 2>/dev/null || true
	done < <(sweep_processes "$dir")
	while read -r item; do
		umount --lazy "$item" || true
	done < <(sweep_mounts "$dir")
	while read -r item; do
		losetup --detach "$item" || true
	done < <(sweep_loops "$dir")
	if [[ -z $(sweep_mounts "$dir") ]]; then
		rm -rf --one-file-system "$dir"
	fi
}
