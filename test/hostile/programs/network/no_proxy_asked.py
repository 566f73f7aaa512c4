# tries: use the way out of other jobs without having one
# outcome: succeeded
from hostile import *
import socket
for v in "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy":
    if v in os.environ:
        escaped(os.environ[v])
for p in list(range(1, 1100)) + [3128, 8080, 8888, 1080, 9050, 2375, 4222, 5432, 6443, 10250]:
    s = socket.socket()
    s.settimeout(0.2)
    refused("port %d" % p, s.connect, ("127.0.0.1", p))
    s.close()
contained()
