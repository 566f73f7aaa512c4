# tries: find the files of other jobs
# outcome: succeeded
# victim: yes
from hostile import *
import time
for _ in range(5):
    for place in "/tmp", "/workspace", "/dev/shm", "/var/tmp", "/run", "/run/assay", "/run/assay/slot", "/run/assay/points", "/run/assay/root/tmp", "/run/assay/root/workspace":
        try:
            names = os.listdir(place)
        except OSError:
            continue
        if "victim" in names:
            escaped(place)
    time.sleep(0.1)
contained()
