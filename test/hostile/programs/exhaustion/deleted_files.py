# tries: hide its data in deleted files
# outcome: exception|disk_limit
# says: No space left
import os
keep = []
for n in range(200):
    f = open("/tmp/%d" % n, "wb", buffering=0)
    os.unlink("/tmp/%d" % n)
    if f.write(bytes(1 << 20)) < 1 << 20:
        f.write(b"x")
    keep.append(f)
