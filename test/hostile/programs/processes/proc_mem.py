# tries: open the memory, environment and files of process 1 and its parent
# outcome: succeeded
from hostile import *
for pid in {1, os.getppid()} - {os.getpid(), 0}:
    for f in "mem", "environ", "maps", "smaps", "stack", "syscall", "auxv", "io", "pagemap", "personality":
        refused("%s of %d" % (f, pid), read, "/proc/%d/%s" % (pid, f), 1)
    for d in "root", "cwd", "exe":
        refused("%s of %d" % (d, pid), os.readlink, "/proc/%d/%s" % (pid, d))
    refused("fds of %d" % pid, os.listdir, "/proc/%d/fd" % pid)
    refused("map_files of %d" % pid, os.listdir, "/proc/%d/map_files" % pid)
contained()
