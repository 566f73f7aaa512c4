# tries: read other jobs' connections in the kernel's tables
# outcome: succeeded
from hostile import *
for f in "tcp", "tcp6", "udp", "udp6", "raw", "raw6", "packet", "unix", "netlink", "icmp", "arp", "route", "ipv6_route", "if_inet6", "fib_trie", "dev_mcast", "igmp", "igmp6", "wireless", "ptype", "protocols", "nf_conntrack", "ip_tables_names", "vsock", "anycast6", "ip6_flowlabel":
    try:
        lines = open("/proc/net/" + f).read().splitlines()[1:]
    except OSError:
        continue
    for line in lines:
        if f in ("tcp", "udp", "raw") and line.split()[1].split(":")[0] not in ("0100007F", "00000000"):
            escaped("%s: %s" % (f, line))
        if f == "arp" or f == "nf_conntrack" or f == "route" and line.split()[0] != "lo":
            escaped("%s: %s" % (f, line))
        if f == "unix" and any(n in line for n in ("containerd", "assay", "nats", "postgres", "systemd", "dbus")):
            escaped(line)
contained()
