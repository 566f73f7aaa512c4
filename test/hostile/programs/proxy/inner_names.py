# tries: have the worker ask its resolver for names that only its own network has (on 5ee7338 it asked)
# outcome: succeeded
# policy: {"network": {"mode": "open"}}
from hostile import *

for n in "nats", "postgres", "localhost", "dispatcher.default.svc.cluster.local", "metadata.google.internal", "c2VjcmV0.corp", "1.0.0.127.in-addr.arpa", "c2VjcmV0.localhost.":
    got = no_way(("CONNECT %s:4222 HTTP/1.1\r\n\r\n" % n).encode())
    if b"refused" not in got:
        escaped("%s was looked up: %r" % (n, got))
contained()
