# tries: use names that are no text, or that mean something to others
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /tmp/$(reboot) /tmp/<script>alert(1)<|script> /workspace/hostile.py
from hostile import *

for name in b"/tmp/\xff\xfe", b"/tmp/new\nline", b"/tmp/\x1b[2J", b"/tmp/\xed\xa0\x80":
    with open(name, "wb") as f:
        f.write(b"x")
for name in "/tmp/$(reboot)", "/tmp/<script>alert(1)<|script>":
    open(name, "w").write("x")
contained()
