"""Reads a file page by page: one page must be EIO, all others right.

    expect_pages.py FILE RIGHT BAD_PAGE

Larger reads that stay clear of the bad page must be right as well.
"""
import errno
import os
import sys

PAGE_BYTES = 4096

path, right_path, bad_page = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(right_path, "rb") as file:
    right = file.read()
fd = os.open(path, os.O_RDONLY)


def expect_right(offset, length):
    data = os.pread(fd, length, offset)
    if data != right[offset : offset + length]:
        sys.exit(f"{length} bytes at {offset} are wrong")


def expect_error(offset, length):
    try:
        os.pread(fd, length, offset)
    except OSError as error:
        if error.errno == errno.EIO:
            return
        raise
    sys.exit(f"{length} bytes at {offset} should be EIO")


bad = bad_page * PAGE_BYTES
for page in range(len(right) // PAGE_BYTES):
    if page == bad_page:
        expect_error(page * PAGE_BYTES, PAGE_BYTES)
    else:
        expect_right(page * PAGE_BYTES, PAGE_BYTES)
expect_right(0, bad)
expect_right(bad + PAGE_BYTES, len(right))
expect_right(bad - 65536, 65536)
expect_error(bad + 1000, 1)
