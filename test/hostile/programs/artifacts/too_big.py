# tries: leave more bytes than it may
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/hostile.py
from hostile import *

open("/workspace/big", "wb").write(bytes(2 << 20))
contained()
