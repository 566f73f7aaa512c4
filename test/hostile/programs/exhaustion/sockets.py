# tries: pin the kernel's memory in socket buffers
# outcome: succeeded|out_of_memory
from hostile import *
import socket
held = 0
pairs = []
try:
    while True:
        a, b = socket.socketpair()
        pairs.append((a, b))
        a.setblocking(False)
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
        try:
            while True:
                held += a.send(bytes(65536))
        except BlockingIOError:
            pass
except OSError:
    pass
if held > 128 << 20:
    escaped("%d bytes in sockets" % held)
contained()
