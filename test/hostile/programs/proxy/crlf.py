# tries: smuggle a second request behind the first
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

second = "GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % port
for first in (
    "GET http://allowed.invalid/ HTTP/1.1\r\nHost: allowed.invalid\r\nContent-Length: 0\r\n\r\n",
    "GET http://allowed.invalid/%0d%0aHost:%20127.0.0.1 HTTP/1.1\r\nHost: allowed.invalid\r\n\r\n",
    "GET http://allowed.invalid/ HTTP/1.1\r\nHost: allowed.invalid\r\nX: y\rHost: 127.0.0.1\r\n\r\n",
    "GET http://allowed.invalid/ HTTP/1.1\r\nHost: allowed.invalid\n\r\n",
    "GET http://allowed.invalid/ HTTP/1.1\r\nHost: allowed.invalid\r\n Host: 127.0.0.1\r\n\r\n",
    "GET\thttp://allowed.invalid/\tHTTP/1.1\r\n\r\n",
):
    no_way((first + second).encode())
contained()
