# tries: meet other jobs in System V queues, semaphores and segments
# outcome: succeeded
# gvisor: exception, its kernel has no /proc/sysvipc
# victim: yes
from hostile import *
for f in "msg", "sem", "shm":
    lines = open("/proc/sysvipc/" + f).read().splitlines()
    if len(lines) > 1:
        escaped(lines)
for key in range(0, 200):
    refused("queue", call, "msgget", key or 1, 0)
    refused("segment", call, "shmget", key or 1, 0, 0)
    refused("semaphore", call, "semget", key or 1, 0, 0)
contained()
