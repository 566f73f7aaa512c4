# tries: make the other end of its streams stall
# outcome: succeeded
from hostile import *
for fd in (0, 1, 2):
    os.set_blocking(fd, False)
sent = 0
for _ in range(1000):
    try:
        sent += os.write(2, bytes(65536))
    except BlockingIOError:
        pass
os.set_blocking(1, True)
contained()
