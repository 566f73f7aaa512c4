# tries: write names of hosts in letters that only look like others, or mean the same
# outcome: succeeded
# policy: {"network": {"mode": "allow", "allow": ["allowed.invalid:80", "*.ok.invalid:443", "192.0.2.7:80"]}}
from hostile import *
for h in "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "127。0。0。1", "127．0．0．1", "allowed.invalid\x00.127.0.0.1", "xn--localhost", "localhost\u200b", "loc\u00adalhost", "ＬＯＣＡＬＨＯＳＴ", "allowed.invalid.", "allowed.invalid..", ".allowed.invalid", "allowed..invalid", "127.0.0.1%00.allowed.invalid", "127.0.0.1%2eok.invalid", "[::1].ok.invalid", "x.ok.invalid@127.0.0.1", "127.0.0.1/.ok.invalid", "-.ok.invalid", "_.ok.invalid", "*.ok.invalid", "a" * 300 + ".ok.invalid", "ok.invalid":
    no_way(("CONNECT %s:%s HTTP/1.1\r\n\r\n" % (h, port)).encode("utf-8", "replace"))
    no_way(("GET http://%s:%s/ HTTP/1.1\r\nHost: %s\r\n\r\n" % (h, port, h)).encode("utf-8", "replace"))
contained()
