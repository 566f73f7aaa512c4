# tries: write a second result, from a child, after it has ended
# outcome: succeeded
from hostile import *
import time
fds = [fd for fd in range(3, 64) if os.path.exists("/proc/self/fd/%d" % fd)]
if os.fork() == 0:
    os.setsid()
    while True:
        for fd in fds:
            try:
                os.write(fd, b'{"value":{"type":"int","repr":"666"}}')
            except OSError:
                pass
contained()
