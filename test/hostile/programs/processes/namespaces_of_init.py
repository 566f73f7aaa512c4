# tries: join the namespaces of process 1
# outcome: succeeded
from hostile import *
for pid in 1, os.getppid():
    for ns in "user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time":
        try:
            fd = os.open("/proc/%d/ns/%s" % (pid, ns), os.O_RDONLY)
        except OSError:
            continue
        refused("setns %s of %d" % (ns, pid), call, "setns", fd, 0)
contained()
