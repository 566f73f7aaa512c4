# tries: reach the host's loopback by a rule of its own that names it, in every spelling (worked on 5ee7338)
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["127.0.0.1:*", "127.0.0.0/8:*", "[::1]:*", "localhost:*", "0.0.0.0:*", "[::]:*"]}}
from hostile import *

for a in "127.0.0.1", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "localhost", "LOCALHOST.", "0.0.0.0", "[::]":
    no_way(("CONNECT %s:%s HTTP/1.1\r\n\r\n" % (a, port)).encode())
    no_way(("GET http://%s:%s/ HTTP/1.1\r\nHost: %s:%s\r\n\r\n" % (a, port, a, port)).encode())
contained()
