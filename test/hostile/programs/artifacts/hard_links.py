# tries: have files of the image taken for its own, by hard links
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/hostile.py
from hostile import *

for target in "/etc/passwd", "/etc/shadow", bait, "/proc/self/environ":
    refused(target, os.link, target, "/workspace/h")
contained()
