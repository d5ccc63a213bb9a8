#!/bin/bash
#
# Dependencies point one way: the engine knows nothing of FUSE, the pure modules
# do no I/O, and fs/ sees only the engine's public headers.  What everything
# may include, nothing can replace or test alone.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

# What fs/ may see of the engine.
public='engine|options|stats|file|lane|page|lock|log|cleanup|memory|mountinfo'
# Decide and do nothing else.
pure=(combine policy stream)
status=0

complain() {
	if [[ -n $2 ]]; then
		printf '%s:\n%s\n' "$1" "$2" >&2
		status=1
	fi
}

complain "the engine must not know FUSE" "$(
	grep -nE '#include ["<](fs/|tools/|.*fuse)' engine/*.[ch]
)"

for module in "${pure[@]}"; do
	complain "$module is pure: no I/O, no locks, no allocation" "$(
		grep -nE '#include' "engine/$module".[ch] |
			grep -vE "<(assert|errno|limits|std[a-z]*|string)\.h>" |
			grep -vE "\"engine/($module|page|units)\.h\""
		grep -nE '\b(malloc|calloc|realloc|free|lock_[a-z]+)\(' \
			"engine/$module".[ch]
	)"
done

complain "fs/ sees only the public headers of the engine" "$(
	grep -nE '#include "engine/' fs/*.[ch] |
		grep -vE "\"engine/($public)\.h\"|\"engine/[a-z]+\.def\""
)"

complain "includes start at the root" "$(
	grep -nE '#include "' engine/*.[ch] fs/*.[ch] |
		grep -vE '"(engine|fs)/'
)"

exit "$status"
