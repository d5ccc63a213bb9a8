#!/bin/bash
#
# The control directory is there for whoever asks for it by name, hidden from
# everybody who copies or searches the tree, and as readable as it says; a
# SOURCE with a file of that name keeps its file.

. "$(dirname "$0")/../lib/mount.sh"
setup

echo hello >"$SOURCE/file"
mkdir "$SOURCE/directory"
mount_source
control=$MOUNT/.aheadfs

# Hidden: no listing shows it, in the root or elsewhere.
[[ $(ls -A "$MOUNT") == $'directory\nfile' ]] || fail "it is listed"
[[ -z $(find "$MOUNT" -name '.aheadfs*') ]] || fail "find finds it"
[[ ! -e $MOUNT/directory/.aheadfs ]] || fail "it is not only in the root"

# Modes and owner.
expect_mode() {
	[[ $(stat -c '%a %u %s %F' "$control/$1") == "$2" ]] ||
		fail "$1 is $(stat -c '%a %u %s %F' "$control/$1")"
}
[[ $(stat -c '%u %F' "$control") == "$EUID directory" ]] ||
	fail "it is no directory of ours"
expect_mode stats "444 $EUID 0 regular empty file"
expect_mode inflight "400 $EUID 0 regular empty file"
expect_mode config "644 $EUID 0 regular empty file"
[[ $(ls "$control") == *stats* ]] || fail "its own listing shows nothing"

# Every number of the table, in its order, is a line of stats.
cat "$control/stats" >"$TEST_DIR/stats"
! grep -Evq '^[a-z_]+ [0-9]+$' "$TEST_DIR/stats" ||
	fail "stats has a line that is not NAME VALUE"
diff <(sed -n 's/^STAT(\([a-z_]*\),.*/\1/p' "$TOP/engine/stats.def") \
	<(cut -d ' ' -f 1 "$TEST_DIR/stats") ||
	fail "stats has other names than the table"

# Every option of the table is a line of config.
cat "$control/config" >"$TEST_DIR/config"
while read -r name; do
	grep -q "^${name}[= ]" "$TEST_DIR/config" ||
		fail "config does not show $name"
done < <(sed -n 's/^OPTION[A-Z_]*(\([a-z_]*\),.*/\1/p' \
	"$TOP/engine/options.def")
cat "$control/inflight" >/dev/null

# Small reads see one snapshot from begin to end.
dd if="$control/stats" of="$TEST_DIR/slowly" bs=7 status=none
expect "numbers in it" "$(wc -l <"$TEST_DIR/slowly")" \
	-eq "$(wc -l <"$TEST_DIR/stats")"

# Nothing can be made, removed or moved there.
for command in "touch $control/new" "mkdir $control/new" "rm $control/stats" \
	"rmdir $control" "mv $control/stats $MOUNT/stats" \
	"mv $control $MOUNT/other" "mv $MOUNT/file $control/file" \
	"ln $control/stats $MOUNT/stats" "ln -s x $control/link" \
	"ln $MOUNT/file $control/link"; do
	if $command 2>/dev/null; then
		fail "this should be refused: $command"
	fi
done
if mkdir "$MOUNT/.aheadfs" 2>/dev/null; then
	fail "its name can be taken"
fi
[[ $(ls -A "$SOURCE") == $'directory\nfile' ]] || fail "SOURCE has changed"
# Made on SOURCE after the mount, it changes nothing.
touch "$SOURCE/.aheadfs"
[[ $(ls -lA "$MOUNT") != *.aheadfs* ]] || fail "a stranger's file is listed"
expect "stats are still there" "$(wc -l <"$MOUNT/.aheadfs/stats")" -gt 30
rm "$SOURCE/.aheadfs"
unmount

# Another name, or none.
mount_source control=.other
expect "stats under another name" "$(wc -l <"$MOUNT/.other/stats")" -gt 30
[[ ! -e $MOUNT/.aheadfs ]] || fail "it has two names"
unmount
mount_source control=off
[[ ! -e $MOUNT/.aheadfs ]] || fail "control=off shows it still"
unmount

# A file of that name in SOURCE is the user's.
echo mine >"$SOURCE/.aheadfs"
expect_error "control=" "$AHEADFS" "$SOURCE" "$MOUNT"
mount_source control=off
[[ $(cat "$MOUNT/.aheadfs") == mine ]] || fail "the user's file is hidden"
unmount
