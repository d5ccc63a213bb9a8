#!/bin/bash
#
# A file that lost its last name lives on for whoever has it open: temporary
# files of databases and build tools are made this way.

. "$(dirname "$0")/../lib/mount.sh"
setup

for mode in off on auto; do
	mount_source "kernel_cache=$mode"
	python3 - "$MOUNT" "$SOURCE" <<'END'
import os, sys

mount, source = sys.argv[1:]
old = os.urandom(100000)
new = os.urandom(100000)

def write(path, data):
    with open(path, "wb") as file:
        file.write(data)

def expect(what, is_right):
    if not is_right:
        sys.exit(f"{what} is wrong")

# Unlinked: reads, writes, grows and shrinks as before.
write(f"{mount}/file", old)
fd = os.open(f"{mount}/file", os.O_RDWR)
expect("the first read", os.pread(fd, 200000, 0) == old)
os.unlink(f"{mount}/file")
expect("the listing", "file" not in os.listdir(source))
expect("the number of links", os.fstat(fd).st_nlink == 0)
expect("reading without a name", os.pread(fd, 200000, 0) == old)
os.pwrite(fd, new[:5000], 50000)
right = old[:50000] + new[:5000] + old[55000:]
expect("writing without a name", os.pread(fd, 200000, 0) == right)
os.ftruncate(fd, 60000)
expect("truncating without a name", os.pread(fd, 200000, 0) == right[:60000])
os.fchmod(fd, 0o600)
os.fsync(fd)
os.utime(fd, (1, 2))
expect("its time", os.fstat(fd).st_mtime == 2)

# A new file of the same name is another file.
write(f"{mount}/file", new)
expect("the old one", os.pread(fd, 200000, 0) == right[:60000])
with open(f"{mount}/file", "rb") as file:
    expect("the new one", file.read() == new)
os.close(fd)

# Replaced by a rename: who has the old one open keeps it.
fd = os.open(f"{mount}/file", os.O_RDONLY)
write(f"{mount}/other", old)
os.rename(f"{mount}/other", f"{mount}/file")
expect("the replaced one", os.pread(fd, 200000, 0) == new)
with open(f"{mount}/file", "rb") as file:
    expect("the replacement", file.read() == old)
os.close(fd)

# Gone together with its directory.
os.mkdir(f"{mount}/directory")
fd = os.open(f"{mount}/directory/file", os.O_RDWR | os.O_CREAT, 0o644)
os.unlink(f"{mount}/directory/file")
os.rmdir(f"{mount}/directory")
os.pwrite(fd, old, 0)
expect("writing without a directory", os.pread(fd, 200000, 0) == old)
os.close(fd)
os.unlink(f"{mount}/file")
expect("what is left", os.listdir(source) == [])
END
	unmount
done
