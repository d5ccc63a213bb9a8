#!/bin/bash
#
# The manual page has every option of the table with its default, in the order
# of the table, and none that the table does not have.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

# NAME DEFAULT, a line each.
of_table() {
	sed -nE 's/^OPTION[A-Z_]*\(([a-z_]+),( [A-Z]+,)? "([^"]*)",.*/\1 \3/p' \
		engine/options.def
}

of_page() {
	sed -nE '/^\.Ss Options of aheadfs/,/^\.S[hs] Options of the mount/p' \
		fs/aheadfs.8 |
		sed -nE 's/^\.It Cm ([a-z_]+) Ns = Ns Ar (.*)$/\1 \2/p'
}

[[ -n $(of_table) ]] || {
	echo "engine/options.def: no options found" >&2
	exit 1
}
diff --label engine/options.def --label fs/aheadfs.8 -u \
	<(of_table) <(of_page)
