"""Reads a file page by page and prints how many are EIO and how many wrong.

    count_pages.py FILE RIGHT
"""
import errno
import os
import sys

PAGE_BYTES = 4096


def read_page(fd, offset):
    """None: EIO."""
    try:
        return os.pread(fd, PAGE_BYTES, offset)
    except OSError as error:
        if error.errno == errno.EIO:
            return None
        raise


def main():
    path, right_path = sys.argv[1:]
    fd = os.open(path, os.O_RDONLY)
    errors = wrong = 0
    with open(right_path, "rb") as file:
        for offset in range(0, os.fstat(fd).st_size, PAGE_BYTES):
            right = file.read(PAGE_BYTES)
            page = read_page(fd, offset)
            errors += page is None
            wrong += page is not None and page != right
    print(errors, wrong)


main()
