# tries: see by inotify which files of the image, which devices and which files of the guest a job of another tenant opens
# outcome: succeeded
# victim: other
# alone: yes
from hostile import *
# Worked on 5ee7338 at cell and task: an event named each file that the other opened.
import select
fd = call("inotify_init1", os.O_NONBLOCK)
for f in "/etc/issue.net", "/dev/full", "/run/assay/harness.py", "/run/assay", "/proc/self/exe":
    if os.path.exists(f):
        call("inotify_add_watch", fd, f.encode(), 0x20)  # IN_OPEN
poll = select.poll()
poll.register(fd, select.POLLIN)
if poll.poll(3000):
    escaped("events: %r" % os.read(fd, 4096))
contained()
