# tries: leave connections half closed, half open and with partial requests
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
# victim: yes
from hostile import *
import socket, struct
from urllib.parse import urlsplit
at = urlsplit(os.environ["HTTP_PROXY"])
kept = []
for n in range(60):
    s = socket.create_connection((at.hostname, at.port), 3)
    s.sendall((b"CONNECT 192.0.2.7:80 HTTP/1.1\r\n", b"\x05", b"G", b"", b"\x05\x01\x00\x05\x01\x00")[n % 5])
    if n % 3 == 0:
        s.shutdown(socket.SHUT_WR)
    elif n % 3 == 1:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        continue
    kept.append(s)
no_way(("CONNECT 127.0.0.1:%s HTTP/1.1\r\n\r\n" % port).encode())
contained()
