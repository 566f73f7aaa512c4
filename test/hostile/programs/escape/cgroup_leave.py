# tries: leave its control group, or widen it
# outcome: succeeded
from hostile import *
for root, dirs, files in os.walk("/sys/fs/cgroup"):
    for f in files:
        if f.endswith((".max", ".limit_in_bytes", "cfs_quota_us", "procs", "tasks", ".threads", "subtree_control", ".freeze", ".kill")):
            refused(f, write, os.path.join(root, f), b"%d" % os.getpid())
    for d in dirs:
        refused("mkdir", os.mkdir, os.path.join(root, d, "hostile"))
refused("mkdir", os.mkdir, "/sys/fs/cgroup/hostile")
contained()
