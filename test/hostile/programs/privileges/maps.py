# tries: map itself to other users
# outcome: succeeded
# gvisor: failed, its kernel does not show how its users are mapped outside
from hostile import *
for f in "uid_map", "gid_map":  # project ids are anybody's to map, and good for nothing
    refused(f, write, "/proc/self/" + f, b"0 0 4294967295")
refused("setgroups", write, "/proc/self/setgroups", b"allow")
for line in open("/proc/self/uid_map"):
    inside, outside, n = (int(x) for x in line.split())
    if outside < 65536:
        escaped("user %d is %d outside" % (inside, outside))
contained()
