# tries: keep the collector waiting by a child that holds the streams
# outcome: succeeded
from hostile import *
contained()
if os.fork() == 0:
    os.setsid()
    import time
    time.sleep(600)
