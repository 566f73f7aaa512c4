# tries: nest directories deeper than any tool can walk
# outcome: disk_limit
import os
os.chdir("/tmp")
try:
    while True:
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
except OSError:
    os.chdir("/")  # getcwd takes seconds there
    raise
