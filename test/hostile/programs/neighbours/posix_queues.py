# tries: meet other jobs in POSIX queues and shared memory
# outcome: succeeded
# victim: yes
from hostile import *
for n in "/x", "/victim", "/assay":
    refused("queue", call, "mq_open", n.encode(), 0)
    refused("memory", call, "shm_open", n.encode(), 0, 0)
if os.listdir("/dev/shm"):
    escaped(os.listdir("/dev/shm"))
contained()
