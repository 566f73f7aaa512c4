# tries: overwrite the interpreter, its libraries and the harness for the next job
# outcome: succeeded
from hostile import *
import json, sys
for f in "/proc/self/exe", sys.executable, "/run/assay/harness.py", "/run/assay/zygote.py", json.__file__, "/usr/bin/env", "/lib64/ld-linux-x86-64.so.2":
    refused("write " + f, write, f, b"x")
    refused("chmod " + f, os.chmod, f, 0o777)
    refused("unlink " + f, os.unlink, f)
    refused("rename onto " + f, os.rename, bait or "/tmp", f)
contained()
