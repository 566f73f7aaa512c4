# tries: learn the directories of the host from the options of its mounts
# outcome: succeeded
import glob, re

from hostile import *

for table in ["/proc/self/mountinfo", "/proc/self/mounts", "/proc/self/mountstats", *glob.glob("/proc/[0-9]*/mountinfo"), *glob.glob("/proc/[0-9]*/task/*/mounts")]:
    try:
        text = open(table).read()
    except OSError:
        continue
    for path in re.findall(r"[=:](/[^,: \n]+)", text):
        if not path.startswith("/proc/self/fd/"):
            escaped(table, path)
    for word in ("snapshot", "containerd", "/slots/", "/fleet", "/var/lib"):
        if word in text:
            escaped(table, word)
contained()
