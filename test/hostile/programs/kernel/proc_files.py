# tries: write to every file of /proc that is not its own
# outcome: succeeded
from hostile import *
for root, dirs, files in os.walk("/proc"):
    if root == "/proc":
        dirs[:] = [d for d in dirs if not d.isdigit() and d not in ("self", "thread-self")]
    for f in files:
        try:
            fd = os.open(os.path.join(root, f), os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue
        if os.fstat(fd).st_rdev == os.stat("/dev/null").st_rdev:
            continue  # masked files are /dev/null
        if not root.startswith("/proc/sys"):
            try:
                os.write(fd, b"1")
            except OSError:
                continue
            escaped("writes %s/%s" % (root, f))
contained()
