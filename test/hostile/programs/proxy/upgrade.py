# tries: have the connection to an allowed host become a tunnel to another
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *
for more in "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__", "Connection: Host\r\nProxy-Connection: keep-alive", "Upgrade: TLS/1.0, HTTP/1.1", "Forwarded: host=127.0.0.1\r\nX-Forwarded-Host: 127.0.0.1\r\nX-Original-URL: http://127.0.0.1/":
    no_way(("GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n\r\n" % (port, more)).encode())
no_way(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
no_way(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 300)
no_way(b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\nGET http://127.0.0.1/ HTTP/1.1\r\n\r\n")
contained()
