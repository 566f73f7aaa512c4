# tries: answer in the place of the process that forked it
# outcome: succeeded
from hostile import *
import gc, socket
for o in gc.get_objects():
    try:
        if isinstance(o, socket.socket) and o.fileno() >= 0:
            o.send(b"\x00" * 64)
            escaped("a socket of the runtime: %r" % o)
    except (OSError, ReferenceError):
        pass
for fd in range(3, 200):
    try:
        s = socket.socket(fileno=os.dup(fd))
    except OSError:
        continue
    escaped("descriptor %d is a socket" % fd)
contained()
