# tries: take the names that another job needs
# outcome: succeeded
# victim: yes
from hostile import *
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 7777)); s.listen()
u = socket.socket(socket.AF_UNIX); u.bind("\0victim"); u.listen()
s.settimeout(1.5)
refused("a guest", s.accept)
contained()
