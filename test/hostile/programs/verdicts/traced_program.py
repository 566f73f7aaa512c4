# tries: request tracing by its parent, and execute another program, which is a stop, too
# outcome: timed_out
# gvisor: exception, its kernel forbids tracing by a process with more rights
# policy: {"wall": "2s"}
# victim: yes
from hostile import *
call("ptrace", 0, 0, 0, 0)
os.execv("/bin/true", ["true"])
