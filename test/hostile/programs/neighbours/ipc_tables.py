# tries: see the segments, queues and semaphores of others in the kernel's tables
# outcome: succeeded
# victim: yes
from hostile import *
for f in "shm", "msg", "sem":
    try:
        lines = open("/proc/sysvipc/" + f).read().splitlines()[1:]
    except OSError:
        continue
    if lines:
        escaped(lines[0])
for d in "/dev/shm", "/dev/mqueue":
    try:
        if os.listdir(d):
            escaped(os.listdir(d))
    except OSError:
        pass
contained()
