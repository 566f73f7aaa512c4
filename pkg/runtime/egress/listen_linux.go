package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/netrule"
)

// Port is the port of a job's proxy on its own loopback.
const Port = 3128

// Listen listens on the loopback address of the network namespace of the process behind pidfd, and
// brings it up if necessary.
func Listen(pidfd uintptr) (l net.Listener, err error) {
	err = inNamespace(pidfd, func() (err error) {
		if err = upLoopback(); err != nil {
			return err
		}
		if l, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", Port)); err != nil {
			return fmt.Errorf("listen in the job's network namespace: %w", err)
		}
		return nil
	})
	return l, err
}

func upLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err == nil && lo.Uint16()&unix.IFF_UP != 0 {
		return nil
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

// Variables returns the environment that makes programs use the proxy of r. Addresses on the job's
// own loopback bypass it, unless r allows addresses of the worker's loopback and an operator has
// opened some.
func Variables(r netrule.Rules, opened ...netrule.Rules) map[string]string {
	at := fmt.Sprintf("http://127.0.0.1:%d", Port)
	own := "localhost,127.0.0.1,::1"
	for _, loopback := range []string{"127.0.0.0/8", "::1/128"} {
		p := netip.MustParsePrefix(loopback)
		if r.Overlaps(p) && slices.ContainsFunc(opened, func(o netrule.Rules) bool { return o.Overlaps(p) }) {
			own = ""
		}
	}
	return map[string]string{
		// ALL_PROXY is not socks5h, because several clients require an extra module for it, and HTTP
		// CONNECT is sufficient.
		"HTTP_PROXY": at, "HTTPS_PROXY": at, "ALL_PROXY": at, "NO_PROXY": own,
		"http_proxy": at, "https_proxy": at, "all_proxy": at, "no_proxy": own,
	}
}
