# tries: reach anything at all behind its loopback
# outcome: succeeded
from hostile import *
import socket
for address in "8.8.8.8", "10.0.0.1", "172.17.0.1", "192.168.0.1", "100.64.0.1", "169.254.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1":
    for kind, to in (socket.SOCK_STREAM, 80), (socket.SOCK_DGRAM, 53):
        s = socket.socket(socket.AF_INET, kind)
        s.settimeout(0.3)
        try:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            s.connect((address, to))
            s.send(b"x")
        except OSError:
            continue
        finally:
            s.close()
        escaped("%s:%d" % (address, to))
for address in "fe80::1%lo", "ff02::1", "fc00::1", "2001:db8::1", "64:ff9b::808:808":
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    try:
        s.connect((address.split("%")[0], 53, 0, 0))
        s.send(b"x")
    except OSError:
        continue
    escaped(address)
contained()
