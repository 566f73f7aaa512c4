# tries: have the collector connect to a socket
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/hostile.py
from hostile import *

import socket
socket.socket(socket.AF_UNIX).bind("/workspace/socket")
contained()
