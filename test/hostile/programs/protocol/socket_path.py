# tries: connect to the worker by the guest's own socket
# outcome: succeeded
from hostile import *
import socket, stat
for root, dirs, files in os.walk("/run"):
    for f in files + dirs:
        path = os.path.join(root, f)
        try:
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                continue
        except OSError:
            continue
        for kind in socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM:
            refused(path, socket.socket(socket.AF_UNIX, kind).connect, path)
for path in "/run/assay/slot/socket", "/run/assay/slot/cell":
    for kind in socket.SOCK_STREAM, socket.SOCK_SEQPACKET:
        refused(path, socket.socket(socket.AF_UNIX, kind).connect, path)
contained()
