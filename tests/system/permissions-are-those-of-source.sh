#!/bin/bash
#
# With allow_other, other users may do through the mount what they may do on
# SOURCE and nothing else, what they create is theirs, and a write clears
# setuid as a local filesystem does.  Every check is made on a twin of the tree,
# too, and the answers are compared.

. "$(dirname "$0")/../lib/mount.sh"
setup

user=65534
as_user() {
	setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}

make_tree() {
	mkdir "$1" "$1/open" "$1/closed" "$1/sticky" "$1/group"
	chmod 777 "$1/open"
	chmod 700 "$1/closed"
	chmod 1777 "$1/sticky"
	chgrp 12345 "$1/group"
	chmod 2777 "$1/group"
	echo secret >"$1/secret"
	chmod 600 "$1/secret"
	echo public >"$1/public"
	chmod 644 "$1/public"
	echo hidden >"$1/closed/hidden"
	echo root >"$1/sticky/root"
	chmod 666 "$1/sticky/root"
	printf '#!/bin/true\n' >"$1/setuid"
	chown "$user" "$1/setuid"
	chmod 6755 "$1/setuid"
}

# What the user can do in a tree, and what it looks like afterwards.
try_everything() {
	cd "$1"
	local command
	while read -r command; do
		if as_user sh -c "umask 027; $command" >/dev/null 2>&1; then
			echo "may: $command"
		else
			echo "may not: $command"
		fi
	done <<'END'
cat public
cat secret
echo x >>public
ls closed
cat closed/hidden
echo mine >open/mine
mkdir open/directory
ln -s nowhere open/link
mkfifo open/fifo.special
echo mine >group/mine
mkdir group/directory
echo x >>sticky/root
rm sticky/root
mv sticky/root sticky/taken
echo x >new
rm public
chmod 777 public
chmod 600 open/mine
chown 0 open/mine
touch -d 2001-01-01 open/mine
touch -d 2001-01-01 public
touch sticky/root
chmod 4755 open/directory
test -w secret
test -r secret
echo x >>setuid
truncate -s 5 setuid
END
	find . -printf '%P %y %m %U:%G %l\n' | sort
	cd /
}

make_tree "$TEST_DIR/plain"
make_tree "$SOURCE/tree"
mount_source allow_other
try_everything "$TEST_DIR/plain" >"$TEST_DIR/expected"
try_everything "$MOUNT/tree" >"$TEST_DIR/found"
diff "$TEST_DIR/expected" "$TEST_DIR/found" ||
	fail "the mount allows something else than SOURCE"
expect_same_trees "$SOURCE" "$MOUNT"
grep -q 'setuid f 755' "$TEST_DIR/found" || fail "setuid survives a write"
unmount

# Without allow_other nobody else comes in at all.
mount_source
expect_error "Permission denied" as_user cat "$MOUNT/tree/public"
unmount
