# tries: leave files that belong to others, and have bits that matter to them
# outcome: succeeded
from hostile import *
f = "/workspace/f"
open(f, "w").close()
for uid in 0, 1, 65534, 100000, 4294967294:
    refused("chown %d" % uid, os.chown, f, uid, -1)
    refused("chgrp %d" % uid, os.chown, f, -1, uid)
os.chmod(f, 0o6777)
import subprocess
open(f, "w").write("#!/bin/sh\nid -u\n")
os.chmod(f, 0o6777)
got = subprocess.run([f], capture_output=True, text=True).stdout.strip()
if got == "0":
    escaped("uid 0")
for name in "security.capability", "security.ima", "security.evm", "trusted.overlay.opaque", "trusted.x", "system.posix_acl_access":
    try:
        os.setxattr(f, name, b"\x01\x00\x00\x02" + b"\xff" * 16)
    except OSError:
        continue
    escaped(name)
contained()
