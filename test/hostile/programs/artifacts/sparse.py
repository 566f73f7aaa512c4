# tries: have the collector read a terabyte that is not there
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/hostile.py
from hostile import *

for name in "/workspace/sparse", "/tmp/sparse":
    with open(name, "wb") as f:
        f.truncate(1 << 40)
contained()
