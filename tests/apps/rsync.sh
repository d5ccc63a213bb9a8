#!/bin/bash
#
# rsync into and out of the mount transfers everything once and finds nothing to
# do the second time, even when it compares every byte.

. "$(dirname "$0")/../lib/mount.sh"
. "$(dirname "$0")/../lib/apps.sh"
setup

work() {
	rsync -aHAXS --itemize-changes input/ copy/ | sort
	echo "again:"
	rsync -aHAXSc --itemize-changes input/ copy/
	echo x >>copy/headers/fuse.h
	touch -r input/headers/fuse.h copy/headers/fuse.h
	rm copy/headers/fs.h
	echo "repaired:"
	rsync -aHAXSc --delete --itemize-changes input/ copy/ | sort
	diff -r --no-dereference input copy
	# In place, block by block, through the delta algorithm.
	printf y | dd of=copy/large bs=1 seek=10000000 conv=notrunc status=none
	rsync -a --no-whole-file --inplace -c input/large copy/large
	cmp input/large copy/large
}

compare_runs work
