# tries: ask to be traced by whoever forked it, and become another program: that is a stop, too
# outcome: timed_out
# policy: {"wall": "2s"}
# victim: yes
from hostile import *
call("ptrace", 0, 0, 0, 0)
os.execv("/bin/true", ["true"])
