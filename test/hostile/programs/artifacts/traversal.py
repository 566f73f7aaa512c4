# tries: have an artifact stored above its place
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/hostile.py
from hostile import *

for name in "..", "../x", "/workspace/../../x", "/workspace/..\\..\\x":
    try:
        os.mkdir(name)
    except OSError:
        pass
contained()
