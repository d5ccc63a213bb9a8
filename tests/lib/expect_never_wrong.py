"""Reads a file page by page: each page is right or EIO, and never wrong.

    expect_never_wrong.py FILE RIGHT

Prints how many pages were EIO.
"""
import errno
import os
import sys

PAGE_BYTES = 4096


def is_error(fd, offset, right):
    try:
        data = os.pread(fd, PAGE_BYTES, offset)
    except OSError as error:
        if error.errno == errno.EIO:
            return True
        raise
    if data != right:
        sys.exit(f"the page at {offset} is wrong")
    return False


def main():
    path, right_path = sys.argv[1:]
    fd = os.open(path, os.O_RDONLY)
    errors = 0
    with open(right_path, "rb") as file:
        for offset in range(0, os.fstat(fd).st_size, PAGE_BYTES):
            errors += is_error(fd, offset, file.read(PAGE_BYTES))
    print(errors)


main()
