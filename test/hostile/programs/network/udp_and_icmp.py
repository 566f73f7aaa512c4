# tries: send packets that need no connection
# outcome: succeeded
from hostile import *
import socket
for a in ["8.8.8.8", "255.255.255.255", "224.0.0.251"] + [a for a in addresses if "." in a and not a.startswith("127.")]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    refused("udp to " + a, s.sendto, b"x", (a, int(port)))
refused("icmp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).sendto(b"\x08\0\0\0\0\0\0\0", ("8.8.8.8", 0)))
contained()
