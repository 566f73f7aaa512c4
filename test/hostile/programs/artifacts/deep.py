# tries: have the collector run out of stack
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/hostile.py
from hostile import *

os.chdir("/tmp")
for _ in range(300):
    os.mkdir("d")
    os.chdir("d")
contained()
