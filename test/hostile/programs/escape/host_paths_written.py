# tries: learn the directories of the host from the mounts of unusual places, which are stacked over the image
# outcome: succeeded
# policy: {"write": ["/workspace", "/tmp", "/usr/local/lib", "/no/such/place"]}
import re

from hostile import *

text = open("/proc/self/mountinfo").read() + open("/proc/self/mounts").read()
for path in re.findall(r"[=:](/[^,: \n]+)", text):
    if not path.startswith(("/proc/self/fd/", "/run/assay/")):
        escaped(path)
for word in ("snapshot", "containerd", "/slots/", "/fleet", "/var/lib", "/run/assay/worker", "/guest-below"):
    if word in text:
        escaped(word)
contained()
