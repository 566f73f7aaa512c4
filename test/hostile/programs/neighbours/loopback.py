# tries: reach what another job listens on
# outcome: succeeded
# victim: yes
from hostile import *
import socket, time
for _ in range(10):
    refused("tcp", socket.create_connection, ("127.0.0.1", 7777), 1)
    refused("abstract", socket.socket(socket.AF_UNIX).connect, "\0victim")
    time.sleep(0.1)
contained()
