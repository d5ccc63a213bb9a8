"""Changes a file in every way and compares with a model after each change.

    file_model.py FILE SOURCE_FILE SEED STEPS

The model is a bytearray.  After each change it must agree with what readers
see who have had the file open all the time, with a fresh open, and with
SOURCE_FILE.
"""
import ctypes
import errno
import mmap
import os
import random
import sys

SIZE_MAX = 3_000_000
PUNCH_HOLE, ZERO_RANGE, KEEP_SIZE = 2, 16, 1

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64,
                           ctypes.c_int64]


class Model:
    def __init__(self, path, source, seed):
        self.path = path
        self.source = source
        self.random = random.Random(seed)
        self.data = bytearray(self.bytes(500_000))
        with open(path, "wb") as file:
            file.write(self.data)
        self.open_all()

    def open_all(self):
        self.fd = os.open(self.path, os.O_RDWR)
        self.appender = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        self.readers = [os.open(self.path, os.O_RDONLY) for _ in range(2)]

    def close_all(self):
        for fd in [self.fd, self.appender, *self.readers]:
            os.close(fd)

    def bytes(self, most):
        return self.random.randbytes(self.random.randint(1, most))

    def range(self):
        first = self.random.randint(0, len(self.data))
        length = self.random.randint(1, 200_000)
        return first, length

    def put(self, offset, data):
        if offset > len(self.data):
            self.data.extend(bytes(offset - len(self.data)))
        self.data[offset : offset + len(data)] = data

    def overwrite(self):
        offset, data = self.range()[0], self.bytes(200_000)
        os.pwrite(self.fd, data, offset)
        self.put(offset, data)

    def write_few_bytes(self):
        offset, data = self.range()[0], self.bytes(10)
        os.pwrite(self.fd, data, offset)
        self.put(offset, data)

    def write_beyond_end(self):
        offset, data = len(self.data) + self.range()[1], self.bytes(9000)
        os.pwrite(self.fd, data, offset)
        self.put(offset, data)

    def append(self):
        data = self.bytes(50_000)
        os.write(self.appender, data)
        self.data.extend(data)

    def truncate(self):
        size = self.random.randint(0, len(self.data) + 50_000)
        if self.random.random() < 0.5:
            os.ftruncate(self.fd, size)
        else:
            os.truncate(self.path, size)
        if size > len(self.data):
            self.data.extend(bytes(size - len(self.data)))
        del self.data[size:]

    def fallocate(self, mode):
        offset, length = self.range()
        if libc.fallocate(self.fd, mode, offset, length):
            number = ctypes.get_errno()
            if number == errno.EOPNOTSUPP:
                return
            raise OSError(number, os.strerror(number))
        if not mode & KEEP_SIZE and offset + length > len(self.data):
            self.data.extend(bytes(offset + length - len(self.data)))
        if mode & (PUNCH_HOLE | ZERO_RANGE):
            end = min(offset + length, len(self.data))
            self.data[offset:end] = bytes(max(0, end - offset))

    def punch(self):
        self.fallocate(PUNCH_HOLE | KEEP_SIZE)

    def zero(self):
        self.fallocate(ZERO_RANGE | self.random.choice([0, KEEP_SIZE]))

    def preallocate(self):
        self.fallocate(self.random.choice([0, KEEP_SIZE]))

    def copy_range(self):
        if len(self.data) < 2:
            return
        half = len(self.data) // 2
        source = self.random.randint(0, half - 1)
        length = self.random.randint(1, half - source)
        target = half + self.random.randint(0, 100_000)
        copied = os.copy_file_range(self.readers[0], self.fd, length, source,
                                    target)
        self.put(target, self.data[source : source + copied])

    def store(self):
        if not self.data:
            return
        offset = self.random.randrange(len(self.data))
        data = self.bytes(30_000)[: len(self.data) - offset]
        with mmap.mmap(self.fd, len(self.data)) as memory:
            memory[offset : offset + len(data)] = data
            memory.flush()
        self.put(offset, data)

    def rewrite(self):
        self.data = bytearray(self.bytes(400_000))
        with open(self.path, "wb") as file:
            file.write(self.data)

    def replace(self):
        old = bytes(self.data)
        self.data = bytearray(self.bytes(400_000))
        with open(self.path + ".new", "wb") as file:
            file.write(self.data)
        os.rename(self.path + ".new", self.path)
        # Who has the old file open keeps it.
        self.compare("the replaced file", self.readers[0], old, 0, SIZE_MAX)
        self.close_all()
        self.open_all()

    def shorten_if_long(self):
        if len(self.data) > SIZE_MAX // 2:
            os.ftruncate(self.fd, 100_000)
            del self.data[100_000:]

    def compare(self, what, fd, right, offset, length):
        data = os.pread(fd, length, offset)
        right = bytes(right[offset : offset + length])
        if data == right:
            return
        first = next((i for i, (a, b) in enumerate(zip(data, right))
                      if a != b), min(len(data), len(right)))
        sys.exit(f"{what}: read {length} at {offset}: {len(data)} bytes, "
                 f"should be {len(right)}; differs at {offset + first}")

    def compare_all(self, step):
        size = os.fstat(self.readers[0]).st_size
        if size != len(self.data):
            sys.exit(f"{step}: size is {size}, not {len(self.data)}")
        fresh = os.open(self.path, os.O_RDONLY)
        source = os.open(self.source, os.O_RDONLY)
        places = [("writer", self.fd), ("reader 1", self.readers[0]),
                  ("reader 2", self.readers[1]), ("fresh open", fresh),
                  ("SOURCE", source)]
        for what, fd in places:
            # A few pages each time, so that the rest stays as it was cached.
            for _ in range(3):
                self.compare(f"{step}, {what}", fd, self.data, *self.range())
            if self.random.random() < 0.2:
                self.compare(f"{step}, {what}", fd, self.data, 0, 2 * SIZE_MAX)
        os.close(fresh)
        os.close(source)

    def step(self, number):
        changes = [self.overwrite, self.write_few_bytes, self.append,
                   self.write_beyond_end, self.truncate, self.punch,
                   self.zero, self.preallocate, self.copy_range, self.store,
                   self.rewrite, self.replace]
        change = self.random.choice(changes)
        change()
        self.compare_all(f"step {number} ({change.__name__})")
        self.shorten_if_long()


def main():
    path, source, seed, steps = sys.argv[1:]
    model = Model(path, source, int(seed))
    for number in range(int(steps)):
        model.step(number)
    model.close_all()


main()
