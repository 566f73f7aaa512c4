# tries: walk up the frames of the harness and take their objects
# outcome: succeeded
from hostile import *
import gc, socket, sys
f = sys._getframe()
while f:
    for name, value in list(f.f_locals.items()) + list(f.f_globals.items()):
        if isinstance(value, socket.socket):
            escaped("a socket: %s" % name)
        if isinstance(value, (str, bytes)) and len(value) > 8 and (bait and bait.rsplit("/", 2)[0].encode() in (value if isinstance(value, bytes) else value.encode("utf-8", "replace"))) and value != bait and name not in ("bait",) and not isinstance(f.f_globals.get("environ"), str):
            pass
    f = f.f_back
for o in gc.get_objects():
    if isinstance(o, socket.socket):
        escaped("a socket: %r" % o)
contained()
