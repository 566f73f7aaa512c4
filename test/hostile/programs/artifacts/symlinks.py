# tries: have the host's files taken for its own, by links
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/fine /workspace/hostile.py
from hostile import *

open("/workspace/fine", "w").write("fine")
for n, target in enumerate((bait, "/etc/shadow", "/proc/self/environ", "../../../../../../etc/shadow", "/proc/1/environ", "/dev/zero", "/workspace/fine", "loop")):
    os.symlink(target, "/workspace/l%d" % n)
os.symlink("/workspace/loop", "/workspace/loop")
contained()
