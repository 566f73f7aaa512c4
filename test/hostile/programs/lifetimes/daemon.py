# tries: leave a daemon behind, forked twice, in a session of its own
# outcome: succeeded
from hostile import *
import time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 300)
        time.sleep(600)
    os._exit(0)
contained()
