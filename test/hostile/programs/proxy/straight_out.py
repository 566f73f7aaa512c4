# tries: go around the proxy that it has
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

import socket
for a in ["192.0.2.7", "8.8.8.8"] + addresses:
    refused(a, socket.create_connection, (a, int(port)), 1)
refused("dns", socket.getaddrinfo, "allowed.invalid", 80)
contained()
