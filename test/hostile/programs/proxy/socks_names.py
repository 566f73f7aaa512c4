# tries: name the host to SOCKS in every way that a name has
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *
p = int(port).to_bytes(2, "big")
for name in b"127.0.0.1", b"localhost", b"allowed.invalid\x00", b"allowed.invalid@127.0.0.1", b"", b"\x00", b"x" * 255, b"2130706433", b"0x7f.1", b"[::1]", b"::1", b"127.0.0.1:80", b"127.0.0.1 ", b"\xff\xfe", b"allowed.invalid\r\nHost: x":
    socks(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + p)
socks(b"\x05\x01\x00\x03\xff" + b"127.0.0.1" + p)
socks(b"\x05\x01\xff\x01\x7f\x00\x00\x01" + p)
socks(b"\x05\x01\x00\x02\x7f\x00\x00\x01" + p)
contained()
