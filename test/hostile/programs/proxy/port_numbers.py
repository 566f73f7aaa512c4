# tries: write ports that two readers take for different ones
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *
n = int(port)
for p in str(n + 65536), "0%d" % n, "+%d" % n, hex(n), "%d " % n, " %d" % n, "%d.0" % n, "-%d" % (65536 - n), "0" * 400 + str(n), "%d#" % n, "%de0" % n, "80:%d" % n, "80@%d" % n, "٨٠", "":
    for host in "127.0.0.1", "192.0.2.7", "allowed.invalid":
        for head in "CONNECT %s:%s HTTP/1.1\r\n\r\n", "GET http://%s:%s/ HTTP/1.1\r\nHost: allowed.invalid\r\n\r\n":
            got = no_way((head % (host, p)).encode())
contained()
