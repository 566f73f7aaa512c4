# tries: listen on the host, and send packets, by SOCKS
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

for command in 0, 2, 3, 4, 255:
    socks(bytes([5, command, 0, 1]) + b"\x00\x00\x00\x00\x00\x00")
for greeting in b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", b"\x05\x00", b"\x05\x01\x02", b"\x05\xff" + b"\x00" * 255, b"\x06\x01\x00", b"\x05":
    socks(b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50", greeting)
contained()
