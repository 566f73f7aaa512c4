# tries: listen in the proxy's place
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

import socket
from urllib.parse import urlsplit
at = urlsplit(os.environ["HTTP_PROXY"])
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
except OSError:
    pass
refused("bind", s.bind, (at.hostname, at.port))
contained()
