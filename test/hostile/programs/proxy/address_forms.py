# tries: reach the host by other ways to write its address
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

forms = ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "0.0.0.0", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
         "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "127.0.0.1.", "localhost", "localhost.", "LOCALHOST", "127.0.0.1.nip.io", "0x7f.1", "017700000001",
         "[::1%25lo]", "[0:0:0:0:0:0:0:1]", "127.000.000.001", "①②⑦.⓪.⓪.①", "[::127.0.0.1]"]
for f in forms:
    no_way(("CONNECT %s:%s HTTP/1.1\r\n\r\n" % (f, port)).encode())
    no_way(("GET http://%s:%s/ HTTP/1.1\r\nHost: x\r\n\r\n" % (f, port)).encode())
contained()
