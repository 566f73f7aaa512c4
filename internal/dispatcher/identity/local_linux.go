package identity

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Layouts of linux/inet_diag.h and linux/netlink.h, in bytes.
const (
	headerSize    = 16 // struct nlmsghdr
	requestSize   = 56 // struct inet_diag_req_v2
	answerSize    = 72 // struct inet_diag_msg
	sourcePort    = 0  // offsets in struct inet_diag_sockid; be16
	destPort      = 2
	sourceAddress = 4 // 16 bytes
	destAddress   = 20
	cookies       = 40 // two u32
	requestID     = 8  // offset of struct inet_diag_sockid in the request
	answerID      = 4  // and in the answer
	answerState   = 1  // u8
	answerUser    = 64 // u32
	answerInode   = 68 // u32

	sockDiagByFamily = 20
	established      = 1 // TCP_ESTABLISHED
	anyCookie        = ^uint32(0)
)

// userOf returns the user of the TCP socket that is bound to source and connected to dest. It rejects sockets without a program,
// and sockets that have begun to close: the kernel reports user 0 for them.
func userOf(source, dest netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("find the user of a connection: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return 0, fmt.Errorf("find the user of a connection: %w", err)
	}
	if err := unix.Sendto(fd, diagRequest(source, dest), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("find the user of a connection: %w", err)
	}
	var answer [1024]byte
	n, _, err := unix.Recvfrom(fd, answer[:], 0)
	if err != nil {
		return 0, fmt.Errorf("find the user of a connection: %w", err)
	}
	if n < headerSize+answerSize || binary.NativeEndian.Uint16(answer[4:]) != sockDiagByFamily {
		return 0, fmt.Errorf("find the user of a connection: no socket of this machine is bound to %v", source)
	}
	found := answer[headerSize:n]
	if id := found[answerID:]; binary.BigEndian.Uint16(id[sourcePort:]) != source.Port() || binary.BigEndian.Uint16(id[destPort:]) != dest.Port() {
		return 0, fmt.Errorf("find the user of a connection: the kernel answered for another socket")
	}
	if found[answerState] != established || binary.NativeEndian.Uint32(found[answerInode:]) == 0 {
		return 0, fmt.Errorf("find the user of a connection: the socket that is bound to %v is closing", source)
	}
	return int(binary.NativeEndian.Uint32(found[answerUser:])), nil
}

// diagRequest returns a request for one TCP socket. The kernel ignores the states in it, because an exact request is no dump.
func diagRequest(source, dest netip.AddrPort) []byte {
	from, to := source.Addr().Unmap(), dest.Addr().Unmap()
	message := make([]byte, headerSize+requestSize)
	binary.NativeEndian.PutUint32(message, uint32(len(message)))
	binary.NativeEndian.PutUint16(message[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(message[6:], unix.NLM_F_REQUEST)
	request := message[headerSize:]
	if request[0] = unix.AF_INET6; from.Is4() {
		request[0] = unix.AF_INET
	}
	request[1] = unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(request[4:], 1<<established)
	id := request[requestID:]
	binary.BigEndian.PutUint16(id[sourcePort:], source.Port())
	binary.BigEndian.PutUint16(id[destPort:], dest.Port())
	copy(id[sourceAddress:], from.AsSlice())
	copy(id[destAddress:], to.AsSlice())
	binary.NativeEndian.PutUint32(id[cookies:], anyCookie)
	binary.NativeEndian.PutUint32(id[cookies+4:], anyCookie)
	return message
}
