#!/bin/bash
#
# A user without any privilege mounts a directory of his own through
# fusermount3, reads and writes it, and unmounts it again.

. "$(dirname "$0")/../lib/mount.sh"

# Some machines keep /dev/fuse to root.  In a mount namespace of its own the
# test can have one for everybody without changing the machine.
if [[ -z ${AHEADFS_OWN_NAMESPACE:-} &&
	$(stat -c %a /dev/fuse) != *[67] ]]; then
	export AHEADFS_OWN_NAMESPACE=1
	exec unshare --mount --propagation private "$0" "$@"
fi
setup
if [[ -n ${AHEADFS_OWN_NAMESPACE:-} ]]; then
	mkdir "$TEST_DIR/dev"
	mount -t tmpfs none "$TEST_DIR/dev"
	mknod -m 666 "$TEST_DIR/dev/fuse" c 10 229
	mount --bind "$TEST_DIR/dev/fuse" /dev/fuse
fi
[[ -u $(command -v fusermount3) ]] || skip "fusermount3 is not setuid root"

user=65534
as_user() {
	setpriv --reuid "$user" --regid "$user" --clear-groups \
		--bounding-set=-all --inh-caps=-all "$@"
}

# fusermount3 needs its privileges: only the rights of files count here.
as_user_with_setuid() {
	setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}

chown "$user:$user" "$SOURCE" "$MOUNT"
chmod 755 "$TEST_DIR"
as_user "$AHEADFS_HELPERS/pattern" write "$SOURCE/file" 15 3000001
# The program may lie where only root comes.
install -m 755 "$AHEADFS" "$AHEADFS_HELPERS/pattern" "$TEST_DIR"
AHEADFS=$TEST_DIR/aheadfs

as_user_with_setuid "$AHEADFS" "$SOURCE" "$MOUNT" 2>>"$LOG" ||
	fail "an unprivileged mount fails"
is_mounted "$MOUNT" || fail "it is not mounted"
DAEMON=$(daemon_of "$MOUNT")
expect "it runs as the user" "$(stat -c %u "/proc/$DAEMON")" -eq "$user"

as_user "$TEST_DIR/pattern" read "$MOUNT/file" 15 >/dev/null
as_user "$TEST_DIR/pattern" write "$MOUNT/written" 16 2000001
as_user "$TEST_DIR/pattern" read "$MOUNT/written" 16 >/dev/null
as_user "$TEST_DIR/pattern" read "$SOURCE/written" 16 >/dev/null
as_user mkdir "$MOUNT/directory"
as_user cat "$MOUNT/.aheadfs/stats" >"$TEST_DIR/stats"
grep -q '^read_bytes [1-9]' "$TEST_DIR/stats" || fail "nothing was counted"
# Somebody has it open: that gives nobody else the right to read it.
as_user bash -c 'exec 5<"$1" && chmod 000 "$1" && ! cat "$1" >/dev/null' \
	- "$MOUNT/file" 2>>"$LOG" || fail "an open file can be read by all"
as_user chmod 644 "$SOURCE/file"
# Without allow_other it is the user's alone.
expect_error "Permission denied" ls "$MOUNT"

as_user_with_setuid fusermount3 -u "$MOUNT"
expect_clean_end
