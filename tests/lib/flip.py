"""Flips one byte in each of some pages, below a filesystem.

    flip.py IMAGE FILE PAGE...

FILE holds the bytes as they should be; a page is found in IMAGE by most of its
content, so flipping twice restores it.
"""
import mmap
import sys

PAGE_BYTES = 4096
FLIPPED = 4000


def find(memory, wanted, start):
    """Pages of a file mostly follow each other."""
    offset = memory.find(wanted, start)
    return offset if offset >= 0 else memory.find(wanted)


def main():
    image, path, *pages = sys.argv[1:]
    offset = 0
    with open(path, "rb") as right, open(image, "r+b") as file:
        with mmap.mmap(file.fileno(), 0) as memory:
            for page in pages:
                right.seek(int(page) * PAGE_BYTES)
                offset = find(memory, right.read(FLIPPED), offset)
                if offset < 0:
                    sys.exit(f"page {page} of {path} is not in {image}")
                memory[offset + FLIPPED] ^= 255
            memory.flush()


main()
