# tries: break fields in two, fold them, repeat them and leave their names out
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *
for more in "Host: allowed.invalid\r\n Host: 127.0.0.1", "Host: allowed.invalid\r\n\tx", ": 127.0.0.1", "Host : allowed.invalid", "Host: allowed.invalid\nX: y", "Host: allowed.invalid\rX: y", "Ho\x00st: allowed.invalid", "Host: allowed.invalid\x0b", "Host:" + " " * 5000 + "allowed.invalid", "Host: allowed.invalid\r\nHost: allowed.invalid", "Content-Length: 0\r\nContent-Length: 1", "Content-Length: +0", "Content-Length: 0x0", "Content-Length: -1", "Transfer-Encoding: xchunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding\x00: chunked", "Connection: close, Host, Transfer-Encoding":
    no_way(("GET http://127.0.0.1:%s/ HTTP/1.1\r\n%s\r\n\r\n" % (port, more)).encode())
contained()
