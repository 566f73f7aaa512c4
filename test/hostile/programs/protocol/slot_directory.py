# tries: put a socket of its own where the guest's was
# outcome: succeeded
from hostile import *
import socket
refused("bind", socket.socket(socket.AF_UNIX).bind, "/run/assay/slot/socket")
refused("chmod", os.chmod, "/run/assay/slot", 0o777)
refused("create", open, "/run/assay/slot/x", "w")
contained()
