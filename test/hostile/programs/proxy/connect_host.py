# tries: reach the host through the proxy by each of its addresses
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

for a in addresses:
    a = "[%s]" % a if ":" in a else a
    no_way(("CONNECT %s:%s HTTP/1.1\r\nHost: %s\r\n\r\n" % (a, port, a)).encode())
    no_way(("GET http://%s:%s/ HTTP/1.1\r\nHost: allowed.invalid\r\n\r\n" % (a, port)).encode())
contained()
