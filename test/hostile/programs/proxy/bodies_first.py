# tries: send more than a head before the answer arrives
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *
tail = ("GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % port).encode()
for head in b"CONNECT 192.0.2.8:80 HTTP/1.1\r\n\r\n", b"CONNECT 192.0.2.8:80 HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd", b"POST http://127.0.0.1/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n", b"POST http://127.0.0.1/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: allowed.invalid\r\n\r\n", b"GET http://127.0.0.1/ HTTP/0.9\r\n", b"GET http://127.0.0.1/\r\n\r\n":
    no_way(head + tail)
contained()
