# tries: set limits of process 1 and of its parent, below their needs; worked on 5ee7338: the next step was our failure
# outcome: succeeded
# gvisor: succeeded, process 1 is another user's there
from hostile import *
pair = (ctypes.c_ulong * 2)
for who in 1, os.getppid(), ctypes.c_ulong(1 << 32 | 1), ctypes.c_ulong(0xFFFFFFFF00000001):
    if who == 0:
        continue
    for what in range(16):
        for value in (0, 0), (3, 3):
            if libc.syscall(302, who, what, pair(*value), None) == 0:  # prlimit64
                escaped("limit %d of %s" % (what, who))
call("prlimit", 0, 7, pair(64, 64), None)  # its own
got = pair()
call("prlimit", os.getpid(), 7, None, got)  # only asks
if got[0] != 64:
    escaped("its own limit is %d" % got[0])
contained()
