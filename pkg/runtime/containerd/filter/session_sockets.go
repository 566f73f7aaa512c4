package filter

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// socketOptions are the allowed socket options of a job that may be copied, by level. None requires
// a capability. Some have no name in package unix.
var socketOptions = []struct {
	level uint32
	names []uint32
}{
	{unix.SOL_SOCKET, []uint32{
		unix.SO_REUSEADDR, unix.SO_DONTROUTE, unix.SO_BROADCAST, unix.SO_SNDBUF, unix.SO_RCVBUF, unix.SO_KEEPALIVE, unix.SO_OOBINLINE,
		unix.SO_LINGER, unix.SO_REUSEPORT, unix.SO_PASSCRED, unix.SO_RCVLOWAT, unix.SO_SNDLOWAT, unix.SO_RCVTIMEO, unix.SO_SNDTIMEO,
		unix.SO_ATTACH_FILTER, unix.SO_DETACH_FILTER, unix.SO_TIMESTAMP, unix.SO_TIMESTAMPNS, unix.SO_TIMESTAMPING, unix.SO_RXQ_OVFL,
		unix.SO_PEEK_OFF, unix.SO_ZEROCOPY, unix.SO_TIMESTAMP_NEW, unix.SO_TIMESTAMPNS_NEW, unix.SO_TIMESTAMPING_NEW, unix.SO_RCVTIMEO_NEW, unix.SO_SNDTIMEO_NEW,
	}},
	{unix.IPPROTO_TCP, []uint32{
		unix.TCP_NODELAY, unix.TCP_MAXSEG, unix.TCP_CORK, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL, unix.TCP_KEEPCNT, unix.TCP_SYNCNT, unix.TCP_LINGER2,
		unix.TCP_DEFER_ACCEPT, unix.TCP_WINDOW_CLAMP, unix.TCP_QUICKACK, unix.TCP_USER_TIMEOUT, unix.TCP_FASTOPEN, unix.TCP_NOTSENT_LOWAT,
		unix.TCP_FASTOPEN_CONNECT,
	}},
	{unix.IPPROTO_UDP, []uint32{1 /* UDP_CORK */, 103 /* UDP_SEGMENT */, 104 /* UDP_GRO */}},
	{unix.IPPROTO_IP, []uint32{
		unix.IP_TOS, unix.IP_TTL, unix.IP_RECVOPTS, unix.IP_PKTINFO, unix.IP_MTU_DISCOVER, unix.IP_RECVERR, unix.IP_RECVTTL, unix.IP_RECVTOS,
		unix.IP_FREEBIND, unix.IP_MINTTL, unix.IP_BIND_ADDRESS_NO_PORT, unix.IP_MULTICAST_IF, unix.IP_MULTICAST_TTL, unix.IP_MULTICAST_LOOP,
		unix.IP_ADD_MEMBERSHIP, unix.IP_DROP_MEMBERSHIP, unix.IP_MULTICAST_ALL,
		unix.MCAST_JOIN_GROUP, unix.MCAST_LEAVE_GROUP,
	}},
	{unix.IPPROTO_IPV6, []uint32{
		unix.IPV6_UNICAST_HOPS, unix.IPV6_MULTICAST_IF, unix.IPV6_MULTICAST_HOPS, unix.IPV6_MULTICAST_LOOP, unix.IPV6_JOIN_GROUP, unix.IPV6_LEAVE_GROUP,
		unix.IPV6_MTU_DISCOVER, unix.IPV6_RECVERR, unix.IPV6_V6ONLY, unix.IPV6_RECVPKTINFO, unix.IPV6_RECVHOPLIMIT, unix.IPV6_DONTFRAG,
		unix.IPV6_RECVTCLASS, unix.IPV6_TCLASS, unix.MCAST_JOIN_GROUP, unix.MCAST_LEAVE_GROUP,
	}},
	{unix.SOL_NETLINK, []uint32{unix.NETLINK_PKTINFO, unix.NETLINK_EXT_ACK, unix.NETLINK_GET_STRICT_CHK}},
}

// socketRequests are the last bytes of the allowed ioctls on such a job's sockets, all 0x89xx:
// ownership of signals, and reading of interfaces.
var socketRequests = []uint32{
	0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, // owner, mark, times
	unix.SIOCGIFNAME & 0xff, unix.SIOCGIFCONF & 0xff, unix.SIOCGIFFLAGS & 0xff, unix.SIOCGIFADDR & 0xff, unix.SIOCGIFDSTADDR & 0xff,
	unix.SIOCGIFBRDADDR & 0xff, unix.SIOCGIFNETMASK & 0xff, unix.SIOCGIFMETRIC & 0xff, unix.SIOCGIFMTU & 0xff, unix.SIOCGIFHWADDR & 0xff,
	unix.SIOCGIFINDEX & 0xff, unix.SIOCGIFTXQLEN & 0xff, unix.SIOCOUTQNSD & 0xff,
}

// Offsets of further arguments in struct seccomp_data.
const (
	dataArg1 = dataArg0 + 8
	dataArg2 = dataArg0 + 16
)

// socketRules allow a job that may be copied only sockets and operations that require no capability
// in any network. They expect and preserve the number of the call in the register.
func socketRules() (rules []bpf.Instruction) {
	families := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArg0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_NETLINK, SkipFalse: 4},
	}
	families = append(families, among(dataArg2, unix.NETLINK_ROUTE)...)
	families = append(families, among(dataArg0, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6)...)
	rules = append(rules, when(unix.SYS_SOCKET, families)...)

	options := []bpf.Instruction{bpf.LoadAbsolute{Off: dataArg1, Size: 4}}
	for _, o := range socketOptions {
		options = append(options, when(o.level, among(dataArg2, o.names...))...)
	}
	options = append(options, bpf.RetConstant{Val: refused})
	rules = append(rules, when(unix.SYS_SETSOCKOPT, options)...)

	requests := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArg1, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xff00},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x8b00, SkipFalse: 1}, // of wireless interfaces
		bpf.RetConstant{Val: refused},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x8900, SkipTrue: 1},
		bpf.RetConstant{Val: seccompAllow},
		bpf.LoadAbsolute{Off: dataArg1, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xff},
	}
	requests = append(requests, among(dataArg1, socketRequests...)[1:]...)
	return append(rules, when(unix.SYS_IOCTL, requests)...)
}

const refused = seccompErrno | uint32(unix.EPERM)

// when returns instructions that run do if the register is v. do must not fall through.
func when(v uint32, do []bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: uint8(len(do))}}, do...)
}

// among allows a call if the argument at off is one of values, and rejects it otherwise.
func among(off uint32, values ...uint32) []bpf.Instruction {
	out := []bpf.Instruction{bpf.LoadAbsolute{Off: off, Size: 4}}
	for i, v := range values {
		out = append(out, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(values) - i)})
	}
	return append(out, bpf.RetConstant{Val: refused}, bpf.RetConstant{Val: seccompAllow})
}
