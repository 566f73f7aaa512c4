# tries: see processes that are not its own
# outcome: succeeded
# victim: yes
from hostile import *
import time
mine = {1, os.getpid()}
for _ in range(50):
    seen = {int(p) for p in os.listdir("/proc") if p.isdigit()}
    if seen - mine:
        escaped("processes %s" % (seen - mine))
    for pid in range(2, 400):
        try:
            status = read("/proc/%d/status" % pid, 4096).decode()
        except OSError:
            continue
        if int(status.split("Tgid:")[1].split()[0]) not in mine:  # threads have numbers too
            escaped("hidden process %d" % pid)
    time.sleep(0.01)
contained()
