# tries: get more disk by writing to every place that it can
# outcome: succeeded
from hostile import *
total = 0
for place in "/workspace", "/tmp", "/dev/shm", "/run", "/var/tmp", "/dev", "/dev/pts", "/", "/home", "/run/lock":
    try:
        with open(place + "/full", "wb", buffering=0) as f:
            while True:
                total += f.write(bytes(1 << 20))
                if total > 40 << 20:
                    escaped("%d bytes" % total)
    except OSError:
        pass
contained()
