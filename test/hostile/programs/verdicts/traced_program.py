# tries: ask to be traced by whoever forked it, and become another program: that is a stop, too
# outcome: timed_out
# gvisor: exception, its kernel lets nobody be traced by a process of more rights
# policy: {"wall": "2s"}
# victim: yes
from hostile import *
call("ptrace", 0, 0, 0, 0)
os.execv("/bin/true", ["true"])
