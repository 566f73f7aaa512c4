# tries: ask the cloud for its credentials through the proxy
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

for a in "169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "2852039166", "0xa9fea9fe", "metadata.google.internal", "100.100.100.200", "169.254.170.2":
    no_way(("GET http://%s/latest/meta-data/ HTTP/1.1\r\nHost: allowed.invalid\r\n\r\n" % a).encode())
    no_way(("CONNECT %s:80 HTTP/1.1\r\n\r\n" % a).encode())
contained()
