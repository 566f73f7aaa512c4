# tries: run a copy of a program from memory, without a file that anybody could check
# outcome: succeeded
from hostile import *
import subprocess
fd = os.memfd_create("copy", 0)
with open("/usr/bin/cat", "rb") as f:
    os.write(fd, f.read())
got = subprocess.run(["/proc/self/fd/%d" % fd, bait, "/etc/shadow"], pass_fds=[fd], capture_output=True)
if got.stdout:
    escaped(got.stdout[:80])
status = subprocess.run(["/proc/self/fd/%d" % fd, "/proc/self/status"], pass_fds=[fd], capture_output=True, text=True).stdout
for line in status.splitlines():
    if line.startswith(("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")) and int(line.split()[1], 16):
        escaped(line)
    if line.startswith("NoNewPrivs") and line.split()[1] != "1":
        escaped(line)
contained()
