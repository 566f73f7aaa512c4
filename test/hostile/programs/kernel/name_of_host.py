# tries: learn the host's name and its domain
# outcome: succeeded
from hostile import *
import socket
u = os.uname()
if u.nodename != "assay" or socket.gethostname() != "assay":
    escaped(u.nodename)
try:
    name = open("/proc/sys/kernel/domainname").read().strip()
except OSError:
    name = "(none)"
if name not in ("(none)", ""):
    escaped(name)
for f in "/etc/machine-id", "/etc/hostname", "/var/lib/dbus/machine-id", "/sys/class/dmi/id/product_uuid", "/sys/class/dmi/id/product_serial", "/sys/class/dmi/id/board_serial", "/sys/devices/virtual/dmi/id/chassis_serial":
    try:
        text = open(f).read().strip()
    except OSError:
        continue
    if text and text not in ("assay", "uninitialized", "localhost", "debian"):
        escaped("%s says %s" % (f, text))
contained()
