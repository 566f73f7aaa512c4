# tries: have the collector follow paths through descriptors
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/out/**"], "max_bytes": "1Mi", "max_files": 50}}
from hostile import *
os.makedirs("/workspace/out")
for n, to in enumerate(("/proc/self/fd/0", "/proc/self/cwd", "/proc/1/root" + bait, "/dev/fd/3", "/proc/thread-self/root", "/proc/self/../../etc/shadow", "/run/assay/slot")):
    os.symlink(to, "/workspace/out/%d" % n)
contained()
