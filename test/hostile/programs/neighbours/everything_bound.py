# tries: bind every port and name that a neighbour could want
# outcome: succeeded
# policy: {"open_files": 256}
# victim: yes
from hostile import *
import socket, time
held = []
for p in [7777] + list(range(1024, 1200)):
    s = socket.socket()
    try:
        s.bind(("0.0.0.0", p))
        s.listen(0)
        held.append(s)
    except OSError:
        s.close()
for name in "\0victim", "\0assay", "\0/run/assay/slot/socket", "\0containerd-shim":
    s = socket.socket(socket.AF_UNIX)
    try:
        s.bind(name)
        held.append(s)
    except OSError:
        pass
time.sleep(1)
contained()
