# tries: reach the host and private networks where the network is open
# outcome: succeeded
# policy: {"network": {"mode": "open"}}
from hostile import *
for a in addresses + ["10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "fd00::1", "fe80::1", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::ffff:10.0.0.1", "64:ff9b::a00:1"]:
    a = "[%s]" % a if ":" in a else a
    no_way(("CONNECT %s:%s HTTP/1.1\r\n\r\n" % (a, port)).encode())
    no_way(("GET http://%s:%s/ HTTP/1.1\r\nHost: x\r\n\r\n" % (a, port)).encode())
contained()
