#!/bin/bash
#
# Every file of a test is in a list of tests/meson.build, and every name there
# has its file: a test that never runs is worse than none.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

status=0

complain() {
	echo "tests/meson.build: $*" >&2
	status=1
}

# listed LIST: the names in one of the lists.
listed() {
	sed -n "/^$1 = \[/,/^\]/s/^  '\(.*\)',.*/\1/p" meson.build
}

# expect_files DIRECTORY PREFIX SUFFIX LIST...
expect_files() {
	local directory=$1 prefix=$2 suffix=$3 file name list names=
	shift 3
	for list in "$@"; do
		names+=$(listed "$list")$'\n'
	done
	for name in $names; do
		file=$directory/$prefix$name$suffix
		[[ -e $file ]] || complain "there is no $file"
	done
	for file in "$directory/$prefix"*"$suffix"; do
		name=$(basename "$file" "$suffix")
		if [[ -e $file ]] && ! grep -qx "${name#"$prefix"}" <<<"$names"
		then
			complain "$file is in no list"
		fi
	done
}

expect_files unit test_ .c unit_tests
expect_files fault test_ .c fault_tests
expect_files system "" .sh system_tests system_once_tests
expect_files apps "" .sh app_tests
expect_files house "" .sh house_tests
exit "$status"
