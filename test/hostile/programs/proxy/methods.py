# tries: use methods that proxies treat in ways of their own
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

for m in "CONNECT", "connect", "TRACE", "OPTIONS", "PRI", "UPGRADE", "PURGE", "", "G\x00T", "A" * 10000:
    no_way(("%s http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\n\r\n" % (m, port)).encode())
no_way(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
contained()
