# tries: lock the files that every job needs
# outcome: succeeded
# victim: yes
from hostile import *
import fcntl, time
for f in "/usr/bin/python3", "/run/assay/harness.py", "/etc/passwd", "/run/assay/guest", "/dev/null", "/lib/x86_64-linux-gnu/libc.so.6":
    try:
        r = open(f)
        fcntl.flock(r, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pass
    refused("lease on " + f, fcntl.fcntl, r, fcntl.F_SETLEASE, fcntl.F_WRLCK)
time.sleep(1)
contained()
