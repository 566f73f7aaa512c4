# tries: use the longest names and paths there are
# outcome: succeeded|exception
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
from hostile import *

os.unlink("/workspace/hostile.py")
path = "/tmp"
os.chdir("/tmp")
for _ in range(40):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
open("f" * 250, "w").write("x")
contained()
