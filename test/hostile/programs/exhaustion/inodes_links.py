# tries: make more names than inodes, as links and directories
# outcome: disk_limit
import os
os.makedirs("/tmp/d")
for n in range(100000):
    os.symlink("x" * 200, "/tmp/d/%d" % n)
