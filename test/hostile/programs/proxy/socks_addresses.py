# tries: reach the host by SOCKS
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

import struct
p = struct.pack(">H", int(port))
socks(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + p)
socks(b"\x05\x01\x00\x01\xa9\xfe\xa9\xfe\x00\x50")
socks(b"\x05\x01\x00\x04" + bytes(15) + b"\x01" + p)
socks(b"\x05\x01\x00\x04" + bytes(10) + b"\xff\xff\x7f\x00\x00\x01" + p)
for name in b"localhost", b"127.0.0.1", b"2130706433", b"0x7f.1", b"::1", b"[::1]", b"\x00", b"a" * 255, b"allowed.invalid\x00.example.org":
    socks(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + p)
contained()
