# tries: read the machine's memory
# outcome: succeeded
from hostile import *
for f in "/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore", "/proc/vmcore", "/dev/crash":
    try:
        data = read(f, 16)
    except OSError:
        continue
    if data:
        escaped(f)
contained()
