#!/bin/bash
#
# The code looks like one hand wrote it: clang-format has nothing to change, no
# line is wider than 80 columns, no file longer than 600 lines, and the shell
# scripts pass shellcheck.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

mapfile -t c_files < <(find engine fs tests tools -name '*.[ch]' | sort)
mapfile -t scripts < <(
	find .ci tests tools -type f -print0 |
		xargs -0 grep -lE -m 1 '^#!/bin/bash|^# shellcheck shell' | sort
)
mapfile -t all_files < <(
	find engine fs tests tools -name '*.[ch]' -o -name '*.def' \
		-o -name '*.py' -o -name 'meson.build'
	printf '%s\n' "${scripts[@]}"
)
status=0

clang-format --dry-run -Werror "${c_files[@]}" || status=1

# A tab is as wide as eight spaces.
for file in "${all_files[@]}"; do
	if [[ $(expand "$file" | wc -L) -gt 80 ]]; then
		echo "$file: a line is wider than 80 columns" >&2
		status=1
	fi
	if [[ $(wc -l <"$file") -gt 600 ]]; then
		echo "$file: more than 600 lines" >&2
		status=1
	fi
	if grep -nE '[[:blank:]]$' "$file" >&2; then
		echo "$file: blanks at the end of a line" >&2
		status=1
	fi
done

# Every script stops at errors, so cd need not be checked each time.
shellcheck --severity=warning --external-sources --source-path=SCRIPTDIR \
	--exclude=SC2164 "${scripts[@]}" || status=1

exit "$status"
