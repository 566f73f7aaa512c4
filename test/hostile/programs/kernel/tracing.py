# tries: trace the kernel, by every file system that is for that
# outcome: succeeded
from hostile import *
for d in "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/fs/bpf", "/sys/fs/pstore", "/sys/firmware/efi/efivars", "/sys/kernel/config", "/proc/fs", "/sys/fs/selinux":
    try:
        names = os.listdir(d)
    except OSError:
        continue
    for n in names:
        try:
            got = read(os.path.join(d, n))
        except OSError:
            continue
        if got and d != "/proc/fs":
            escaped("%s/%s" % (d, n))
    refused("a file in " + d, open, d + "/probe", "w")
contained()
