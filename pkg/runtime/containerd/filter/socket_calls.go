package filter

import (
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// argument requires a value for an argument of a call. It compares all 64 bits. This is correct
// although the kernel reads only the lower half of some numbers: a value with upper bits does not
// match and is rejected.
func argument(index uint, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: value, Op: specs.OpEqualTo}
}

func allowed(name string, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: args}
}

// socketCalls allows sockets whose memory a job's meters include, and the kind of netlink that
// lists interfaces. Other families have no use in a sandbox, and their modules load on demand.
func socketCalls() []specs.LinuxSyscall {
	calls := []specs.LinuxSyscall{
		allowed("socket", argument(0, unix.AF_UNIX)),
		allowed("socket", argument(0, unix.AF_NETLINK), argument(2, unix.NETLINK_ROUTE)),
	}
	for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []uint64{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			calls = append(calls, allowed("socket", argument(0, family), argument(2, protocol)))
		}
	}
	for _, level := range []uint64{unix.SOL_SOCKET, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.SOL_NETLINK} {
		calls = append(calls, allowed("setsockopt", argument(1, level)))
	}
	for _, name := range optionsOfIP {
		calls = append(calls, allowed("setsockopt", argument(1, unix.IPPROTO_IP), argument(2, name)))
	}
	for _, name := range optionsOfIPv6 {
		calls = append(calls, allowed("setsockopt", argument(1, unix.IPPROTO_IPV6), argument(2, name)))
	}
	return calls
}

// The IP options that a program may set. The list excludes options that outlive the socket in its
// network namespace: flow labels, and multicast groups, which the kernel reports for some time
// after their end. The next job may use the same namespace.
var (
	optionsOfIP = []uint64{
		unix.IP_TOS, unix.IP_TTL, unix.IP_RECVOPTS, unix.IP_PKTINFO, unix.IP_MTU_DISCOVER, unix.IP_RECVERR, unix.IP_RECVTTL, unix.IP_RECVTOS,
		unix.IP_FREEBIND, unix.IP_RECVORIGDSTADDR, unix.IP_MINTTL, unix.IP_BIND_ADDRESS_NO_PORT, unix.IP_LOCAL_PORT_RANGE,
		unix.IP_MULTICAST_IF, unix.IP_MULTICAST_TTL, unix.IP_MULTICAST_LOOP, unix.IP_MULTICAST_ALL,
	}
	optionsOfIPv6 = []uint64{
		unix.IPV6_V6ONLY, unix.IPV6_UNICAST_HOPS, unix.IPV6_MTU_DISCOVER, unix.IPV6_MTU, unix.IPV6_RECVERR, unix.IPV6_RECVPKTINFO, unix.IPV6_PKTINFO,
		unix.IPV6_RECVHOPLIMIT, unix.IPV6_RECVTCLASS, unix.IPV6_TCLASS, unix.IPV6_DONTFRAG, unix.IPV6_RECVPATHMTU, unix.IPV6_AUTOFLOWLABEL,
		unix.IPV6_ADDR_PREFERENCES, unix.IPV6_FREEBIND, unix.IPV6_MINHOPCOUNT,
		unix.IPV6_MULTICAST_IF, unix.IPV6_MULTICAST_HOPS, unix.IPV6_MULTICAST_LOOP, unix.IPV6_MULTICAST_ALL,
	}
)
