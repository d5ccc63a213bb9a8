#!/bin/bash
#
# git commits, clones, packs and checks a repository: many small files, renames
# over locks, maps of packs.

. "$(dirname "$0")/../lib/mount.sh"
. "$(dirname "$0")/../lib/apps.sh"
setup

export HOME=$TEST_DIR GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.org
export GIT_AUTHOR_DATE="2020-01-01 00:00:00 +0000"
export GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE

work() {
	git init -q -b main repository
	cp -a input/headers input/engine input/fs input/link repository
	cd repository
	git add -A
	git commit -q -m "everything"
	git rm -q -r fs
	git mv engine machine
	echo x >>headers/fuse.h
	git commit -q -a -m "less"
	git checkout -q -b other HEAD~1
	echo y >>headers/fs.h
	git commit -q -a -m "more"
	git merge -q -m "both" main
	cd ..
	git clone -q --no-hardlinks repository clone
	git -C clone fsck --full --strict --no-progress
	git -C clone status --short
	git -C clone log --format=%H --all
	git -C repository gc -q --aggressive --prune=now
	git -C repository fsck --full --no-progress
	git -C repository status --short
	git -C repository grep -c fuse_in_header | sort
	git -C repository stash list
	diff -r --exclude=.git repository clone
	# Packs depend on the number of threads, the index on times.
	rm -rf repository/.git clone/.git
}

compare_runs work
