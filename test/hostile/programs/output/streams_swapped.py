# tries: swap its streams, and put others in their place
# outcome: succeeded|exception|failed
# says: contained
from hostile import *
os.dup2(1, 9)
os.dup2(2, 1)
os.dup2(9, 2)
os.write(2, b"contained\n")
for fd in 0, 1:
    os.close(fd)
os.open("/etc/passwd", os.O_RDONLY)
os.open("/dev/null", os.O_RDWR)
