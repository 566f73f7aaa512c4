# tries: reach the host by links that it makes
# outcome: succeeded
from hostile import *
for target in (bait, "../../../../../.." + bait, "/proc/1/root" + bait, "/proc/self/root/.." + bait):
    os.symlink(target, "/tmp/l")
    refused(target, read, "/tmp/l")
    os.unlink("/tmp/l")
    refused("hard link", os.link, target, "/tmp/h")
for target in "/etc/passwd", "/usr/bin/env", "/run/assay/guest", "/proc/self/exe":
    refused("hard link to " + target, os.link, target, "/tmp/h")
contained()
