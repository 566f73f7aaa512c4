# tries: open every device that it finds or can name
# outcome: succeeded
# gvisor: failed, its kernel has a /dev/fuse of its own
from hostile import *
import stat
fine = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}
for root, dirs, files in os.walk("/"):
    if root == "/":
        dirs[:] = [d for d in dirs if d not in ("proc", "sys", "usr", "lib")]
    for f in files:
        path = os.path.join(root, f)
        st = os.lstat(path)
        if stat.S_ISBLK(st.st_mode) or stat.S_ISCHR(st.st_mode) and f not in fine and not root.startswith("/dev/pts"):
            escaped(path)
for f in "sda", "vda", "nvme0n1", "fuse", "kvm", "loop0", "loop-control", "net/tun", "vhost-net", "dm-0", "mapper/control", "snapshot", "tty0", "input/event0":
    refused(f, read, "/dev/" + f)
contained()
