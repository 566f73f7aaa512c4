# tries: make the collector fail on unreadable files
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/d/f /workspace/hostile.py
from hostile import *

os.mkdir("/workspace/d"); open("/workspace/d/f", "w").write("x")
os.chmod("/workspace/d/f", 0)
os.chmod("/workspace/d", 0)
os.chmod(os.path.join("/workspace", "hostile.py"), 0)
os.chmod("/workspace", 0o000) if os.stat("/workspace").st_uid == os.getuid() else None
contained()
