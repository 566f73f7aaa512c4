# tries: change the rules for packets
# outcome: succeeded
for t in iptables nft ip6tables ip tc; do command -v $t >/dev/null && $t -L 2>/dev/null && echo "ESCAPED: $t"; done
for f in /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/all/route_localnet /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/net/core/somaxconn; do
	[ -e $f ] && echo 1 2>/dev/null >$f && echo "ESCAPED: $f"
done
echo contained
