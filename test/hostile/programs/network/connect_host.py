# tries: connect to the host by each of its addresses
# outcome: succeeded
from hostile import *
import socket
for a in addresses + ["0.0.0.0", "127.0.0.2", "::ffff:127.0.0.1", "169.254.0.1", "10.0.2.2", "172.17.0.1", "192.168.122.1"]:
    refused(a, socket.create_connection, (a, int(port)), 1)
contained()
