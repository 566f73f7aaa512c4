# tries: keep memory as System V segments, which outlive their makers
# outcome: succeeded|out_of_memory|failed|exception
from hostile import *
held = 0
for n in range(64):
    try:
        segment = call("shmget", 0, 8 << 20, 0o1600)
    except OSError:
        break
    libc.shmat.restype = ctypes.c_void_p
    at = libc.shmat(segment, None, 0)
    if at in (None, ctypes.c_void_p(-1).value):
        break
    ctypes.memset(at, 1, 8 << 20)
    held += 8
if held > 128:
    escaped("%d MiB in segments" % held)
contained()
