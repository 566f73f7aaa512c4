# tries: have the collector hang on a pipe
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/hostile.py
from hostile import *

os.mkfifo("/workspace/fifo")
os.mkfifo("/tmp/fifo")
contained()
