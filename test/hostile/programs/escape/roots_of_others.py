# tries: walk out by the roots, working directories and mapped files of every process it sees
# outcome: succeeded
from hostile import *
import stat
own = os.stat("/")
for pid in [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]:
    for way in "root", "cwd", "exe", "map_files", "fd":
        try:
            st = os.stat("/proc/%s/%s/." % (pid, way) if way in ("root", "cwd") else "/proc/%s/%s" % (pid, way))
            names = os.listdir("/proc/%s/%s" % (pid, way)) if stat.S_ISDIR(st.st_mode) else []
        except OSError:
            continue
        if way == "root" and (st.st_dev, st.st_ino) != (own.st_dev, own.st_ino):
            escaped("the root of %s is another: %s" % (pid, names[:5]))
        if way in ("fd", "map_files") and names:
            escaped("%s of %s: %s" % (way, pid, names[:5]))
        if "var/lib/assay" in " ".join(names):
            escaped(names)
for name in os.listdir("/proc/1/task") if os.path.isdir("/proc/1/task") else []:
    refused("root of a thread of process 1", os.listdir, "/proc/1/task/%s/root/../../.assay" % name)
contained()
