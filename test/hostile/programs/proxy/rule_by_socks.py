# tries: reach the target of a rule of its own by SOCKS, as address, as mapped address and as name (worked on 5ee7338)
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["127.0.0.0/8:*", "[::1]:*", "localhost:*"]}}
from hostile import *

import struct
p = struct.pack(">H", int(port))
socks(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + p)
socks(b"\x05\x01\x00\x01\x7f\x01\x02\x03" + p)
socks(b"\x05\x01\x00\x04" + bytes(15) + b"\x01" + p)
socks(b"\x05\x01\x00\x04" + bytes(10) + b"\xff\xff\x7f\x00\x00\x01" + p)
socks(b"\x05\x01\x00\x03\x09localhost" + p)
contained()
