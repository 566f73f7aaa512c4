# tries: signal to a job of another tenant by locks on common files
# outcome: succeeded
# victim: other
# alone: yes
from hostile import *
# Worked on 5ee7338: the image, /dev and an input that is empty were the same files for all tenants.
import fcntl, time
held = []
for f in "/etc/issue.net", "/dev/full", "/dev/zero", "/run/assay/guest", "/usr/bin/env", "/proc/self/exe", "/proc/self/fd/0":
    try:
        r = open(f)
        fcntl.flock(r, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held.append(r)
    except OSError:
        pass
if len(held) < 4:
    escaped("only %r" % held)
time.sleep(3)
contained()
