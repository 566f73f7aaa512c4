# tries: name two hosts, only one of them allowed
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

for head in ("Host: allowed.invalid\r\nHost: 127.0.0.1", "Host: 127.0.0.1\r\nHost: allowed.invalid", "Host: allowed.invalid, 127.0.0.1", "Host: allowed.invalid 127.0.0.1", "Host:\r\n\tallowed.invalid"):
    no_way(("GET http://127.0.0.1:%s/ HTTP/1.1\r\n%s\r\n\r\n" % (port, head)).encode())
    no_way(("GET / HTTP/1.1\r\n%s\r\n\r\n" % head).encode())
contained()
