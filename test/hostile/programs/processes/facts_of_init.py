# tries: read what process 1 does, by every file about it
# outcome: succeeded
# gvisor: failed, process 1 is the program's own kind there, of its own user
from hostile import *
for f in "environ", "maps", "smaps", "smaps_rollup", "pagemap", "auxv", "io", "syscall", "stack", "mem", "personality", "numa_maps", "timers", "timerslack_ns", "fdinfo/3", "ns/mnt", "ns/net", "map_files", "attr/current", "clear_refs", "coredump_filter", "patch_state":
    at = "/proc/1/" + f
    try:
        got = os.readlink(at) if f.startswith("ns/") else os.listdir(at) if f == "map_files" else read(at, 4096)
    except OSError:
        continue
    if f.startswith("attr"):
        continue
    if got and got not in (b"0\n", b"00000000\n", b"00000033\n", b"ffffffffffffffff\n", b"running\n"):
        escaped("%s: %r" % (f, got[:60]))
contained()
