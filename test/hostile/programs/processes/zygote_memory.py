# tries: find traces of other jobs in the memory that it was forked with
# outcome: succeeded
# victim: yes
from hostile import *
for line in open("/proc/self/maps"):
    where, perms = line.split()[:2]
    if "r" not in perms or "[v" in line:
        continue
    a, b = (int(x, 16) for x in where.split("-"))
    with open("/proc/self/mem", "rb", buffering=0) as m:
        try:
            m.seek(a)
            data = m.read(min(b - a, 64 << 20))
        except (OSError, OverflowError):
            continue
    needle = b"VICTIM=" + b"of-victim"
    if needle in data and b"needle = b" not in data:
        escaped("the environment of another job at " + where)
contained()
