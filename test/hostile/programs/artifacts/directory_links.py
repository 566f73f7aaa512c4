# tries: have the host's directories walked, by links
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/hostile.py
from hostile import *

for n, target in enumerate(("/", "/etc", "/proc/self/root/etc", os.path.dirname(bait), "/workspace", "..", "/proc/self/fd", "/sys")):
    os.symlink(target, "/tmp/d%d" % n)
contained()
