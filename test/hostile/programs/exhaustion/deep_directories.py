# tries: nest directories deeper than any tool can walk
# outcome: disk_limit
import os
os.chdir("/tmp")
while True:
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
