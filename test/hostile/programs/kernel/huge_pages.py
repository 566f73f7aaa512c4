# tries: take the machine's huge pages
# outcome: succeeded
# gvisor: failed, it hands out ordinary pages of the job's memory under that name
from hostile import *
import mmap
before = [l for l in open("/proc/meminfo") if l.startswith("HugePages_Free")]
for shift in 0, 21, 30:
    try:
        m = mmap.mmap(-1, 1 << max(shift, 21), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000 | shift << 26)
        m[0] = 1
        escaped("a page of 2^%d bytes" % shift)
    except (OSError, ValueError, OverflowError):
        pass
for flags in 0o4000, 0o4000 | 21 << 26, 0o4000 | 30 << 26:
    got = libc.shmget(0, 1 << 30, 0o1600 | flags)
    if got >= 0 and libc.shmat(got, None, 0) != -1:
        escaped("a segment of huge pages")
fd = libc.syscall(319, b"huge", 4)
if fd >= 0:
    refused("a file of huge pages", os.posix_fallocate, fd, 0, 1 << 21)
contained()
