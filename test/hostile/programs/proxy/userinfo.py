# tries: name the host behind a user and a password
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *
for who in "allowed.invalid@", "allowed.invalid:80@", "allowed.invalid%00@", "allowed.invalid#@", "allowed.invalid\\@", "a:b@c@", "allowed.invalid/@", "allowed.invalid?@", "%61llowed.invalid@":
    no_way(("GET http://%s127.0.0.1:%s/ HTTP/1.1\r\nHost: allowed.invalid\r\n\r\n" % (who, port)).encode())
    no_way(("CONNECT %s127.0.0.1:%s HTTP/1.1\r\nHost: allowed.invalid\r\n\r\n" % (who, port)).encode())
contained()
