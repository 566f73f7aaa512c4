# tries: have the proxy speak something else for it
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

for u in "file:///etc/passwd", "ftp://allowed.invalid/", "https://127.0.0.1/", "gopher://127.0.0.1:%s/" % port, "unix:///run/containerd/containerd.sock", "//127.0.0.1/", "http:/127.0.0.1/", "http:127.0.0.1", "javascript:1", "http://", "*":
    got = no_way(("GET %s HTTP/1.1\r\nHost: allowed.invalid\r\n\r\n" % u).encode())
    if b"root:" in got:
        escaped(got)
contained()
