# tries: signal process groups that are not its own
# outcome: succeeded
# victim: yes
from hostile import *
import signal
me = os.getpgrp()
for group in range(2, 5000):
    if group != me:
        refused("killpg %d" % group, os.killpg, group, signal.SIGKILL)
contained()
