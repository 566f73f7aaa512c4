# tries: have a file grow while it is read
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /tmp/small /workspace/hostile.py
from hostile import *

open("/tmp/small", "w").write("x")
if os.fork() == 0:
    os.setsid()
    while True:
        with open("/tmp/grow", "ab", buffering=0) as f:
            try:
                f.write(bytes(65536))
            except OSError:
                os.truncate("/tmp/grow", 3 << 20)
import time
time.sleep(0.5)
contained()
