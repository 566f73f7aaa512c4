# tries: read the request again, or the request of another job
# outcome: succeeded
from hostile import *
for fd in range(3, 64):
    try:
        os.set_blocking(fd, False)
        data = os.read(fd, 1 << 16)
    except OSError:
        continue
    if b"argv" in data or b"variables" in data:
        escaped(data)
contained()
