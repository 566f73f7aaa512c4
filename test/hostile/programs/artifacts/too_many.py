# tries: leave more files than it may
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 0, "max_bytes": "1Mi"}}
from hostile import *

os.unlink("/workspace/hostile.py")
for n in range(400):
    open("/workspace/%03d" % n, "w").close()
contained()
