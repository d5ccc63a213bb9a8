#!/bin/bash
#
# On a SOURCE that has no O_DIRECT everything works through its page cache, and
# the fallback is counted: nobody has to know what his filesystem can do.

. "$(dirname "$0")/../lib/mount.sh"
setup

mount -t ramfs none "$SOURCE" || skip "the kernel has no ramfs"
pattern write "$SOURCE/file" 8 5000001

mount_source kernel_cache=off
pattern read "$MOUNT/file" 8 >/dev/null
ios=$(stat_value ios)
expect "it was read" "$ios" -gt 0
expect "all of it through the page cache" "$(stat_value buffered_ios)" \
	-eq "$ios"
expect "the file is counted" "$(stat_value direct_fallbacks)" -eq 1
pattern write "$MOUNT/written" 9 3000001
pattern read "$SOURCE/written" 9 >/dev/null
pattern read "$MOUNT/written" 9 >/dev/null
unmount

mount_source kernel_cache=off,direct=off
pattern read "$MOUNT/file" 8 >/dev/null
expect "direct=off is no fallback" "$(stat_value direct_fallbacks)" -eq 0
unmount
