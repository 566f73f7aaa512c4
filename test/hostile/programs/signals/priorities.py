# tries: slow others down, or kill them first when memory is short
# outcome: succeeded
# gvisor: failed, scores among its own processes only
# victim: yes
from hostile import *
for pid in range(1, 300):
    if pid == os.getpid():
        continue
    refused("renice %d" % pid, os.setpriority, os.PRIO_PROCESS, pid, 19)
    refused("oom_score_adj of %d" % pid, write, "/proc/%d/oom_score_adj" % pid, b"1000")
    refused("affinity of %d" % pid, os.sched_setaffinity, pid, {0})
refused("a better oom score", write, "/proc/self/oom_score_adj", b"-1000")
contained()
