# tries: reach the host by rules of its own for private, shared and all addresses (worked on 5ee7338)
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["10.0.0.0/8:*", "172.16.0.0/12:*", "192.168.0.0/16:*", "100.64.0.0/10:*", "169.254.0.0/16:*", "192.0.2.0/24:*", "198.18.0.0/15:*", "[fc00::/7]:*", "[fe80::/10]:*", "0.0.0.0/0:*", "[::/0]:*"]}}
from hostile import *

for a in addresses:
    a = "[%s]" % a if ":" in a else a
    no_way(("CONNECT %s:%s HTTP/1.1\r\n\r\n" % (a, port)).encode())
contained()
