# tries: see the locks of others in the kernel's list of them
# outcome: succeeded
# victim: yes
from hostile import *
import fcntl
mine = open("/tmp/mine", "w")
fcntl.lockf(mine, fcntl.LOCK_EX)
try:
    lines = open("/proc/locks").read().splitlines()
except OSError:
    lines = []
for line in lines:
    pid = line.replace("-> ", "").split()[4]
    if pid not in (str(os.getpid()), "-1", "0", "1"):
        escaped(line)
contained()
