# tries: open files in every process it may have
# outcome: succeeded
from hostile import *
import time
children = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                os.open("/dev/null", os.O_RDONLY)
        except OSError:
            time.sleep(0.5)
            os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
contained()
