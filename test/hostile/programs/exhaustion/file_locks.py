# tries: have the kernel keep locks without end
# outcome: succeeded|timed_out|out_of_memory
# policy: {"wall": "3s"}
from hostile import *
import fcntl
f = open("/tmp/locks", "w")
for n in range(200000):
    fcntl.lockf(f, fcntl.LOCK_EX, 1, n * 2)
contained()
