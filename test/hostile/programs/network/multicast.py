# tries: receive multicasts of other jobs
# outcome: succeeded
# victim: yes
from hostile import *
import socket, struct
heard = []
for group, p in ("224.0.0.251", 5353), ("224.0.0.1", 7777), ("239.255.255.250", 1900):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind(("", p))
        s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4s", socket.inet_aton(group), socket.inet_aton("127.0.0.1")))
    except OSError:
        pass
    s.settimeout(0.2)
    try:
        heard.append(s.recvfrom(100))
    except OSError:
        pass
if heard:
    escaped(heard)
contained()
