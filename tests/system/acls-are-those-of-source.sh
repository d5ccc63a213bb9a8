#!/bin/bash
#
# Access control lists of SOURCE decide through the mount, too: whoever is
# named in one gets in, whoever is shut out by one stays out, and what is made
# in a directory inherits its defaults.  Mode bits alone would let people in
# that SOURCE refuses.

. "$(dirname "$0")/../lib/mount.sh"
setup

user=65534
as_user() {
	setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}

make_tree() {
	mkdir "$1" "$1/inherits"
	echo listed >"$1/listed"
	chmod 600 "$1/listed"
	setfacl -m "u:$user:r" "$1/listed" || skip "SOURCE has no ACLs"
	echo refused >"$1/refused"
	chmod 644 "$1/refused"
	setfacl -m "u:$user:-" "$1/refused"
	setfacl -m "u:$user:rwx,d:u:$user:rwx,d:g::-,d:o::-" "$1/inherits"
}

# What is allowed in a tree, and what it looks like afterwards.
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
cat listed
cat refused
echo x >>listed
echo x >inherits/mine
mkdir inherits/directory
echo x >inherits/directory/mine
setfacl -m u:12345:rw inherits/mine
setfacl -m u:12345:rw listed
setfacl -b inherits/directory
END
	(umask 077 && echo x >inherits/root && mkdir -p inherits/directory/root)
	setfacl -m u:12345:rwx inherits/root
	chmod 640 inherits/root
	getfacl -R .
	cd /
}

make_tree "$TEST_DIR/plain"
make_tree "$SOURCE/tree"
mount_source allow_other
try_everything "$TEST_DIR/plain" >"$TEST_DIR/expected"
try_everything "$MOUNT/tree" >"$TEST_DIR/found"
diff "$TEST_DIR/expected" "$TEST_DIR/found" ||
	fail "the mount allows something else than SOURCE"
diff <(cd "$SOURCE" && getfacl -R .) <(cd "$MOUNT" && getfacl -R .) ||
	fail "the mount shows other lists than SOURCE"
unmount
