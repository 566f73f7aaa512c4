# tries: learn where the kernel is in memory
# outcome: succeeded
from hostile import *
try:
    for line in open("/proc/kallsyms"):
        if int(line.split()[0], 16):
            escaped(line)
except OSError:
    pass
for f in "/proc/self/stack", "/sys/kernel/notes_x", "/proc/iomem":
    try:
        text = read(f, 4096).decode("utf-8", "replace")
    except OSError:
        continue
    if f == "/proc/iomem" and any(not l.strip().startswith("00000000-00000000") for l in text.splitlines()[:-1]):
        escaped(text[:80])
contained()
