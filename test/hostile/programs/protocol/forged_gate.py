# tries: report through the gate that it never began, with a forged error
# outcome: succeeded|failed
from hostile import *
import socket
for fd in range(3, 256):
    for message in b"\x00", b"\x01", b"\x02\x01\x00\x00\x00\x00", b"\x03" * 6, bytes(range(256)):
        try:
            s = socket.socket(fileno=os.dup(fd))
            s.send(message)
            escaped("a gate at %d" % fd)
        except OSError:
            break
contained()
os._exit(0)
