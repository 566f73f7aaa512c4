# tries: use names that only look as if a rule meant them
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *

for n in "ok.invalid", "xok.invalid", "a.ok.invalid.example.org", "*.ok.invalid", "ok.invalid.", ".ok.invalid", "a..ok.invalid", "ok.invalid%00.example.org", "a.ok.invalid@example.org", "example.org/a.ok.invalid":
    no_way(("CONNECT %s:443 HTTP/1.1\r\n\r\n" % n).encode())
contained()
