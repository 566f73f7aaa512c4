# tries: change every setting of the kernel below /proc/sys
# outcome: succeeded
from hostile import *
for root, dirs, files in os.walk("/proc/sys"):
    for f in files:
        path = os.path.join(root, f)
        try:
            fd = os.open(path, os.O_WRONLY)
        except OSError:
            continue
        # Some may be opened by anybody, and judge the write.
        try:
            value = read(path, 4096)
        except OSError:
            value = b"1"
        try:
            os.write(fd, value or b"1")
        except OSError:
            continue
        escaped(path)
contained()
