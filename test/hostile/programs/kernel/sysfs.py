# tries: write to every file of /sys
# outcome: succeeded|timed_out
# policy: {"wall": "20s", "cpu_time": "10s"}
from hostile import *
n = 0
for root, dirs, files in os.walk("/sys"):
    for f in files:
        try:
            fd = os.open(os.path.join(root, f), os.O_WRONLY)
        except OSError:
            continue
        escaped("opens %s/%s for writing" % (root, f))
for f in "/sys/power/state", "/sys/kernel/mm/ksm/run", "/sys/module/kvm/parameters/x", "/sys/kernel/debug", "/sys/kernel/tracing/trace", "/sys/fs/bpf":
    refused(f, write, f, b"1")
contained()
