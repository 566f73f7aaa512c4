# tries: have two readers disagree on where a request ends
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

inner = "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\n\r\n" % port
for head in ("Content-Length: 0\r\nContent-Length: 60", "Transfer-Encoding: chunked\r\nContent-Length: 5", "Transfer-Encoding: xchunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
             "Content-Length: +5", "Content-Length: -1", "Content-Length: 99999999999999999999", "Transfer-Encoding : chunked", "Content-Length: 0x5"):
    no_way(("POST http://allowed.invalid/ HTTP/1.1\r\nHost: allowed.invalid\r\n%s\r\n\r\n0\r\n\r\n%s" % (head, inner)).encode())
contained()
