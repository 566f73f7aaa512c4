package filter

import (
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// argument says that an argument of a call has a value. A comparison of all 64 bits
// is right for numbers of which the kernel looks at the lower half, as long as what
// it finds is allowed: with anything in the upper half it finds nothing.
func argument(index uint, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: value, Op: specs.OpEqualTo}
}

func allowed(name string, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: args}
}

// socketCalls allows the sockets of which some meter of a job knows the memory, and
// of netlink the kind that lists interfaces. The other families have no use behind
// these walls, and modules that load when somebody asks for them.
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

// The options of IP that a program may set. Missing are those which outlive the
// socket in its network namespace: labels of flows, and groups of multicast, of
// which the kernel tells whom it concerns some time after their end. The namespace
// may be the next job's by then.
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
