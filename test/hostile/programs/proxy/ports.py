# tries: use an allowed host on a port that is not
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

for p in 22, 25, 443, 8080, 0, 65536, -1, 80.0, "080x", "", "80 ", "http":
    no_way(("CONNECT allowed.invalid:%s HTTP/1.1\r\n\r\n" % p).encode())
no_way(b"CONNECT 192.0.2.7:81 HTTP/1.1\r\n\r\n")
no_way(b"CONNECT 192.0.2.8:80 HTTP/1.1\r\n\r\n")
contained()
