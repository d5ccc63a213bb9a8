#!/bin/bash
#
# A tree may have many more files than the daemon may have descriptors: an
# inode that the kernel knows must not cost one for ever.

. "$(dirname "$0")/../lib/mount.sh"
setup

count=5000
python3 - "$SOURCE" "$count" <<'END'
import os, sys

for i in range(int(sys.argv[2])):
    directory = f"{sys.argv[1]}/{i // 500}"
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/{i}", "w") as file:
        file.write(f"file {i}\n")
END

mount_source nofile=256,entry_timeout=60,attr_timeout=60
# All at once, so that the kernel knows every one of them.
find "$MOUNT" -type f -size -1000 | wc -l >"$TEST_DIR/count"
expect "files found" "$(cat "$TEST_DIR/count")" -eq "$count"
expect "inodes known" "$(stat_value inodes)" -gt "$count"
expect "the descriptors of the daemon" \
	"$(find "/proc/$DAEMON/fd" -mindepth 1 | wc -l)" -le 256
expect_same_trees "$SOURCE" "$MOUNT"

# Open files do cost one each, and the others stay within reach.
python3 - "$MOUNT" <<'END'
import sys

files = [open(f"{sys.argv[1]}/0/{i}") for i in range(80)]
for i in range(4000, 5000):
    with open(f"{sys.argv[1]}/{i // 500}/{i}") as file:
        if file.read() != f"file {i}\n":
            sys.exit(f"file {i} is wrong")
for i, file in enumerate(files):
    if file.read() != f"file {i}\n":
        sys.exit(f"open file {i} is wrong")
END
expect "no request failed for want of descriptors" \
	"$(grep -ci 'too many open' "$LOG" || true)" -eq 0
unmount
