# tries: have the proxy dial metadata, link-local and embedding addresses by rules of its own (on 5ee7338 it dialled them)
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["169.254.169.254:80", "169.254.0.0/16:*", "100.100.100.200:80", "[fd00:ec2::254]:80", "[fe80::/10]:*", "[64:ff9b::/96]:*", "[2002::/16]:*", "[::/96]:*", "127.0.0.0/8:*", "224.0.0.0/4:*", "100.64.0.0/10:*", "10.0.0.0/8:*"]}}
from hostile import *

for a in ("169.254.169.254", "169.254.1.1", "100.100.100.200", "[fd00:ec2::254]", "[fe80::1]", "[::ffff:169.254.169.254]", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]",
          "[2002:7f00:1::]", "[::127.0.0.1]", "224.0.0.1", "100.64.0.1", "10.0.0.1"):
    got = no_way(("CONNECT %s:80 HTTP/1.1\r\n\r\n" % a).encode())
    if b"refused" not in got:
        escaped("%s was dialled: %r" % (a, got))
contained()
