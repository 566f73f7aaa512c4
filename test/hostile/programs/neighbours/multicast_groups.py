# tries: have the kernel send packets in its name when it is gone, in a namespace that is the next job's by then
# outcome: succeeded
# victim: yes
from hostile import *
import socket, struct

# Worked on 5ee7338 at cell: reports of groups went out after the box's end, and the next job found them in its counters.
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
group = socket.inet_pton(socket.AF_INET6, "ff15::1")
refused("a group of IPv6", s.setsockopt, socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group + struct.pack("I", 1))
for name in 27, 32, 42, 46, 48:  # any-cast, labels of flows, and groups by other names
    refused("option %d of IPv6" % name, s.setsockopt, 41, name, group + bytes(200))
t = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for name in 35, 39, 41, 42, 46, 48:
    refused("option %d of IP" % name, t.setsockopt, 0, name, socket.inet_aton("239.1.2.3") + socket.inet_aton("127.0.0.1") + bytes(200))
libc.setsockopt.argtypes = None
request = socket.inet_aton("239.1.2.3") + socket.inet_aton("127.0.0.1")
for level in 0, 1 << 32, 6 << 32 | 0:  # the kernel uses the lower half
    if libc.syscall(54, t.fileno(), ctypes.c_ulong(level), ctypes.c_ulong(35 | 1 << 32), request, 8) == 0:
        escaped("a group by level %#x" % level)
contained()
