# tries: reach the daemons of the host by their sockets
# outcome: succeeded
from hostile import *
import socket
name = os.environ["HOSTILE_SOCKET"]
refused("the bait", socket.socket(socket.AF_UNIX).connect, "\0" + name[1:])
for path in "/run/containerd/containerd.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/nscd/socket", "/run/udev/control", "/dev/log":
    refused(path, socket.socket(socket.AF_UNIX).connect, path)
contained()
