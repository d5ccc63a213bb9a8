#!/bin/bash
#
# tar makes the same archive of the same files, and what it extracts compares
# equal.

. "$(dirname "$0")/../lib/mount.sh"
. "$(dirname "$0")/../lib/apps.sh"
setup

work() {
	tar --sort=name --format=posix \
		--pax-option=delete=atime,delete=ctime -cf archive.tar input
	mkdir extracted
	tar -xpf archive.tar -C extracted
	tar -df archive.tar -C extracted
	tar -df archive.tar
	tar -tvf archive.tar | wc -l
	tar --sort=name -czf archive.tar.gz input
	tar -xzOf archive.tar.gz "input/hard link" | cmp - input/large
	tar --sparse -cf sparse.tar input
	tar -df sparse.tar
	# Their headers hold a time and a process number.
	rm archive.tar.gz sparse.tar
}

compare_runs work
