# tries: find a way out: interfaces, routes, neighbours
# outcome: succeeded
from hostile import *
import socket
names = [n for _, n in socket.if_nameindex()]
if names != ["lo"]:
    escaped(names)
for f in "route", "ipv6_route", "arp", "fib_trie":
    try:
        lines = open("/proc/net/" + f).read()
    except OSError:
        continue
    for a in addresses:
        if "." in a and not a.startswith("127.") and a in lines:
            escaped("%s in %s" % (a, f))
    if f == "route" and len(lines.splitlines()) > 1:
        escaped(lines)
contained()
