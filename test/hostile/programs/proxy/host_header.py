# tries: have the rule judge one host and the request go to another
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

for target in "127.0.0.1:" + port, "10.0.0.1:80":
    no_way(("GET http://%s/ HTTP/1.1\r\nHost: allowed.invalid\r\n\r\n" % target).encode())
    no_way(("GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % target).encode())
    no_way(("GET http://allowed.invalid@%s/ HTTP/1.1\r\nHost: allowed.invalid\r\n\r\n" % target).encode())
    no_way(("GET http://%s\\@allowed.invalid/ HTTP/1.1\r\nHost: x\r\n\r\n" % target).encode())
    no_way(("GET http://%s#@allowed.invalid/ HTTP/1.1\r\nHost: x\r\n\r\n" % target).encode())
    no_way(("CONNECT allowed.invalid:80@%s HTTP/1.1\r\n\r\n" % target).encode())
contained()
