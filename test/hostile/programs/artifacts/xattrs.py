# tries: leave files with attributes and modes that matter elsewhere
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/hostile.py /workspace/suid
from hostile import *

open("/workspace/suid", "w").write("x")
os.chmod("/workspace/suid", 0o6777)
try:
    os.setxattr("/workspace/suid", "user.x", b"y" * 1000)
except OSError:
    pass
contained()
