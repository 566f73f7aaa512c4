# tries: have the proxy connect to itself, again and again
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *
from urllib.parse import urlsplit
at = urlsplit(os.environ["HTTP_PROXY"])
for host in at.hostname, "127.0.0.1", "localhost", "[::1]", "0.0.0.0":
    no_way(("CONNECT %s:%d HTTP/1.1\r\n\r\n" % (host, at.port)).encode())
    no_way(("GET http://%s:%d/ HTTP/1.1\r\nHost: %s\r\nVia: 1.1 x\r\n\r\n" % (host, at.port, host)).encode())
    if host[0].isdigit():
        socks(b"\x05\x01\x00\x01" + bytes(int(n) for n in host.split(".")) + at.port.to_bytes(2, "big"))
contained()
