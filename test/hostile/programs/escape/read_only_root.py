# tries: write anywhere outside of its writable places
# outcome: succeeded
from hostile import *
fine = ("/workspace", "/tmp", "/dev/shm", "/proc", "/sys")
for root, dirs, files in os.walk("/"):
    dirs[:] = [d for d in dirs if not os.path.join(root, d).startswith(fine) and not os.path.islink(os.path.join(root, d))]
    if root.count("/") > 3:
        dirs[:] = []
    refused(root, os.mkdir, os.path.join(root, "hostile"))
    for f in files[:20]:
        path = os.path.join(root, f)
        if not root.startswith("/dev"):
            refused(path, os.open, path, os.O_WRONLY)
contained()
