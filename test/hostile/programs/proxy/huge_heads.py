# tries: send heads that are endless, slow or broken
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

no_way(b"GET http://allowed.invalid/" + b"a" * (1 << 20) + b" HTTP/1.1\r\n\r\n")
no_way(b"GET http://allowed.invalid/ HTTP/1.1\r\n" + b"X: y\r\n" * 100000 + b"\r\n")
no_way(b"\x00" * 100000)
no_way(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300))
no_way(b"GET http://allowed.invalid/ HTTP/9.9\r\n\r\n")
contained()
