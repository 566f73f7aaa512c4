# tries: take the descriptors of process 1, of its parent and of the process that forked it
# outcome: succeeded
from hostile import *
seen = {1, os.getppid()} | {int(p) for p in os.listdir("/proc") if p.isdigit()} - {os.getpid()}
for pid in seen - {0}:
    for fd in list(range(8)) + [100, 101, 102]:
        for flags in os.O_RDONLY, os.O_WRONLY, os.O_PATH:
            refused("descriptor %d of %d" % (fd, pid), os.open, "/proc/%d/fd/%d" % (pid, fd), flags)
contained()
