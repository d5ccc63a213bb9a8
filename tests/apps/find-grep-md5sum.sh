#!/bin/bash
#
# What searches and sums up a tree finds the same in the mount.

. "$(dirname "$0")/../lib/mount.sh"
. "$(dirname "$0")/../lib/apps.sh"
setup

work() {
	grep -rn include input/headers | sort | md5sum
	grep -rl --exclude-dir=tests struct input | sort
	find input -ls | awk "{ \$1 = \$2 = \"\"; print }" |
		grep -v "^ *d" | sort -k 9
	find input -type f -size +100k -newermt 2000-01-01 | sort
	find input -samefile input/large | sort
	find input -type f -print0 | sort -z | xargs -0 md5sum
	du --apparent-size --bytes input/headers/fuse.h input/large
	sort -u input/headers/*.h | md5sum
	wc -c input/large input/hole input/empty
	tail -c 1000 input/large | md5sum
	file_count=$(ls -R input | wc -l)
	echo "$file_count"
}

compare_runs work
