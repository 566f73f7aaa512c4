# tries: make its parent trace it, so that a stop is taken for its end; worked on 5ee7338: the interpreter ended, and all its jobs
# outcome: timed_out
# gvisor: exception, its kernel forbids tracing by a process with more rights
# policy: {"wall": "2s"}
# victim: yes
from hostile import *
call("ptrace", 0, 0, 0, 0)
os.kill(os.getpid(), 19)
