# tries: give a program capabilities by its attributes
# outcome: succeeded
from hostile import *
import shutil
shutil.copy("/usr/bin/env", "/tmp/env")
value = b"\x01\x00\x00\x02" + b"\xff" * 16
refused("security.capability", os.setxattr, "/tmp/env", "security.capability", value)
refused("trusted", os.setxattr, "/tmp/env", "trusted.overlay.opaque", b"y")
refused("of the image", os.setxattr, "/usr/bin/env", "user.x", b"y")
contained()
