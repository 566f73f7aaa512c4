# tries: the same to the interpreter that it was forked from, and then to end; worked on 5ee7338: it ended with the first of them
# outcome: succeeded|process_limit
# victim: yes
from hostile import *
import threading
for _ in range(2000):
    t = threading.Thread(target=libc.ptrace, args=(0, 0, 0, 0))
    t.start()
    t.join()
contained()
