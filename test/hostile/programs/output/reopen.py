# tries: reopen its output to read what others wrote, and to make it unbounded
# outcome: succeeded
from hostile import *
import fcntl
for fd in (1, 2):
    try:
        r = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY | os.O_NONBLOCK)
        got = os.read(r, 100)
        if got and b"contained" not in got:
            escaped(got)
    except OSError:
        pass
    try:
        if fcntl.fcntl(fd, 1031, 1 << 26) >= 1 << 26:
            escaped("a pipe of 64 MiB")
    except OSError:
        pass
contained()
