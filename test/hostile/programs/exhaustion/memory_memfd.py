# tries: keep memory as files without any file system
# outcome: out_of_memory
import os
fd = os.memfd_create("x")
while True:
    os.write(fd, bytes(1 << 20))
