#!/bin/bash
#
# Shared and private maps, reads and writes agree with each other and with
# SOURCE, whether or not the kernel's page cache is in front: SQLite in WAL
# mode and every linker rely on it.

. "$(dirname "$0")/../lib/mount.sh"
setup

for mode in off on auto; do
	mount_source "kernel_cache=$mode"
	python3 - "$MOUNT/file" "$SOURCE/file" <<'END'
import mmap, os, sys

path, source = sys.argv[1:]
size = 1000003
data = bytearray(os.urandom(size))

def expect(what, is_right):
    if not is_right:
        sys.exit(f"{what} is wrong")

def content(name):
    with open(name, "rb") as file:
        return file.read()

with open(path, "wb") as file:
    file.write(data)

reader = os.open(path, os.O_RDONLY)
fd = os.open(path, os.O_RDWR)
expect("a read before the map", os.pread(reader, size, 0) == data)

private = mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ)
expect("the private map", private[:] == data)

shared = mmap.mmap(fd, size, mmap.MAP_SHARED)
expect("the shared map", shared[:] == data)

# A store into the map, made durable, is what everybody reads.
for offset in (0, 4095, 500000, size - 1):
    shared[offset] = data[offset] = data[offset] ^ 255
shared.flush()
expect("a read after a store", os.pread(reader, size, 0) == data)
expect("SOURCE after a store", content(source) == data)
expect("a new open after a store", content(path) == data)

# A write is what the maps show.
new = os.urandom(20000)
os.pwrite(fd, new, 300001)
data[300001:320001] = new
expect("the shared map after a write", shared[:] == data)
expect("SOURCE after a write", content(source) == data)

# Two maps of one file are one memory.
other = os.open(path, os.O_RDWR)
second = mmap.mmap(other, size, mmap.MAP_SHARED)
second[123456] = data[123456] = data[123456] ^ 255
expect("the other map", shared[123456] == data[123456])
second.flush()
expect("a read after the other map's store",
       os.pread(reader, size, 0) == data)

# Private changes stay private.
copy = mmap.mmap(fd, size, mmap.MAP_PRIVATE)
copy[0] = data[0] ^ 255
expect("the file after a private store", content(path) == data)
for one in (private, shared, second, copy):
    one.close()
expect("the file after unmapping", content(path) == data)
END
	expect_same "$SOURCE/file" "$MOUNT/file"
	unmount
	rm "$SOURCE/file"
done
