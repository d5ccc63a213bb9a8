#!/bin/bash
#
# SQLite in WAL mode, with several processes that write and read at once, keeps
# its books: no transfer is half visible, and the database is sound afterwards.

. "$(dirname "$0")/../lib/mount.sh"
. "$(dirname "$0")/../lib/apps.sh"
setup

processes=3
transfers=100
export processes transfers

create() {
	sqlite3 bank.db <<"END"
PRAGMA journal_mode=WAL;
PRAGMA page_size;
CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
	INSERT INTO account SELECT i, 1000, printf("%0500d", i) FROM n;
CREATE INDEX by_balance ON account (balance);
END
}

# The first argument makes the transfers of a process its own.
transfer() {
	local i
	echo ".timeout 60000"
	for ((i = 0; i < transfers; i++)); do
		echo "BEGIN IMMEDIATE;"
		echo "UPDATE account SET balance = balance - $i" \
			"WHERE id = $((1 + ($1 * 7919 + i * 31) % 2000));"
		echo "UPDATE account SET balance = balance + $i" \
			"WHERE id = $((1 + ($1 * 104729 + i * 17) % 2000));"
		echo "COMMIT;"
	done
}

audit() {
	local i
	echo ".timeout 60000"
	for ((i = 0; i < transfers; i++)); do
		echo "SELECT sum(balance) FROM account;"
	done
}

work() {
	local i
	local -a pids=()
	create
	for ((i = 0; i < processes; i++)); do
		transfer "$i" | sqlite3 bank.db &
		pids+=($!)
		audit | sqlite3 bank.db | sort -u &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	sqlite3 bank.db "PRAGMA integrity_check; SELECT count(*) FROM account;"
	sqlite3 bank.db "SELECT id, balance FROM account ORDER BY id;" | md5sum
	sqlite3 bank.db "PRAGMA journal_mode=DELETE; VACUUM;"
	sqlite3 bank.db "PRAGMA integrity_check;"
	sqlite3 bank.db .dump | md5sum
	# Its pages depend on the order of the writers.
	rm -f bank.db bank.db-*
}

compare_runs work
