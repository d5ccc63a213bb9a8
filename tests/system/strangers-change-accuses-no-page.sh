#!/bin/bash
#
# Somebody changes a file behind the mount while a program writes it through
# the mount.  Then one change cannot be told from the other; but a page whose
# bytes are good must never be called damaged because of it.

. "$(dirname "$0")/../lib/mount.sh"
setup

mount_source kernel_cache=off,cache_size=16M
pattern write "$SOURCE/other" 3 $((48 << 20))
python3 - "$SOURCE" "$MOUNT" <<'PY'
import os, sys, threading

source, mount = sys.argv[1:]
PAGE = 4096
COUNT = 20


def change_behind(name):
    with open(f"{source}/{name}", "wb") as file:
        file.write(b"A" * (1 << 20))
        os.fsync(file.fileno())
    reader = os.open(f"{mount}/{name}", os.O_RDONLY)
    os.pread(reader, PAGE, 100 * PAGE)
    writer = os.open(f"{mount}/{name}", os.O_WRONLY | os.O_DSYNC)
    written = threading.Event()
    stop = threading.Event()

    def write():
        while not stop.is_set():
            os.pwrite(writer, b"C" * PAGE, 0)
            written.set()

    thread = threading.Thread(target=write)
    thread.start()
    written.wait()
    behind = os.open(f"{source}/{name}", os.O_WRONLY)
    os.pwrite(behind, b"B" * PAGE, 100 * PAGE)
    os.close(behind)
    written.clear()
    written.wait()
    stop.set()
    thread.join()
    os.close(writer)
    return reader  # held open: what is known of the file stays known


readers = [change_behind(f"file{i}") for i in range(COUNT)]
for _ in range(2):
    # Three times the cache: everything else leaves it.
    with open(f"{mount}/other", "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
    for reader in readers:
        if os.pread(reader, PAGE, 100 * PAGE) != b"B" * PAGE:
            sys.exit("old bytes, read again from SOURCE")
PY
expect "no page is accused" "$(stat_value checksum_mismatches)" -eq 0
expect "no read failed" "$(stat_value io_errors)" -eq 0
unmount
