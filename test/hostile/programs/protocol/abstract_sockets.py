# tries: find abstract sockets of the guest, the host and other jobs
# outcome: succeeded
# victim: yes
from hostile import *
import socket
names = [l.split()[-1] for l in open("/proc/net/unix").read().splitlines()[1:] if "@" in l]
if names:
    escaped(names)
for name in os.environ["HOSTILE_SOCKET"][1:], "victim", "socket", "assay", "containerd", "/containerd-shim/x.sock":
    refused(name, socket.socket(socket.AF_UNIX).connect, "\0" + name)
contained()
