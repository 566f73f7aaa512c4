# tries: ask the cloud for its credentials
# outcome: succeeded
from hostile import *
import socket, urllib.request
for a in "169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "metadata.google.internal", "192.0.0.192":
    refused(a, socket.create_connection, (a, 80), 1)
refused("by url", urllib.request.urlopen, "http://169.254.169.254/latest/meta-data/", timeout=1)
contained()
