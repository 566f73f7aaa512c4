// Package poll checks descriptors without waiting.
package poll

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Now returns the given events for which a descriptor is ready, plus unix.POLLHUP and unix.POLLERR.
// poll(2) may fail with EINTR even without waiting, because the Go runtime often sends signals to
// itself. So Now retries; otherwise a live process would seem to have ended.
func Now(fd uintptr, events int16) (ready int16, err error) {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		_, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return fds[0].Revents, err
		}
	}
}

// Ready reports whether a descriptor is readable, or its other end closed. It returns false if the
// descriptor is closed or the state unknown.
func Ready(of syscall.RawConn) (ready bool) {
	_ = of.Control(func(fd uintptr) {
		events, err := Now(fd, unix.POLLIN)
		ready = err == nil && events != 0
	})
	return ready
}
