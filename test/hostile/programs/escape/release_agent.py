# tries: have the host run a program when a control group is empty
# outcome: succeeded
from hostile import *
for root, dirs, files in os.walk("/sys/fs/cgroup"):
    for f in files:
        if f in ("release_agent", "notify_on_release", "cgroup.procs", "tasks"):
            refused(os.path.join(root, f), write, os.path.join(root, f), b"0")
os.mkdir("/tmp/cg")
for kind, options in (("cgroup", b"rdma"), ("cgroup", b"memory"), ("cgroup", b"none,name=x"), ("cgroup2", None)):
    refused("mount " + kind, call, "mount", b"x", b"/tmp/cg", kind.encode(), 0, options)
contained()
