#!/bin/bash
#
# fio finds every block that it wrote as it wrote it, in random order, with and
# without O_DIRECT, through psync and io_uring.

. "$(dirname "$0")/../lib/mount.sh"
. "$(dirname "$0")/../lib/apps.sh"
setup

fio_verify() {
	fio --name=verify --filename=fio-file --size=32M --bsrange=4k-64k \
		--rw=randrw --verify=crc32c --verify_fatal=1 --do_verify=1 \
		--randrepeat=1 --fallocate=none --end_fsync=1 "$@" \
		>"$TEST_DIR/fio" 2>&1 || {
		tail -n 20 "$TEST_DIR/fio"
		return 1
	}
	echo "verified: $*"
	rm fio-file
}

work() {
	fio_verify --ioengine=psync --direct=0
	fio_verify --ioengine=io_uring --iodepth=16 --direct=0
	fio_verify --ioengine=psync --direct=1 --blockalign=4k --bs=4k
	fio_verify --ioengine=io_uring --iodepth=16 --direct=1 --bs=4k
	fio_verify --ioengine=mmap --bs=4k
}

[[ $(stat -f -c %T "$SOURCE") != tmpfs ]] || make_disk ext4 512M
compare_runs work
