# tries: use the sockets that the allow-list has for the proxy, for others
# outcome: succeeded
# policy: {"syscalls": "strict", "network": {"mode": "allow", "allow": ["allowed.invalid:80"]}}
from hostile import *
import socket
for a in addresses:
    refused(a, socket.create_connection, (a, int(port)), 1)
    a = "[%s]" % a if ":" in a else a
    if b"HTTP/1." not in no_way(("CONNECT %s:%s HTTP/1.1\r\n\r\n" % (a, port)).encode()):
        escaped("no answer of the proxy: sockets do not work")
contained()
