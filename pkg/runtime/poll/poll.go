// Package poll looks at a descriptor without waiting.
package poll

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Now returns which of the events a descriptor is ready for, and unix.POLLHUP and unix.POLLERR where
// they are so, unasked. poll(2) fails with EINTR even without waiting, if a signal is pending, and the Go
// runtime sends itself some all the time: taken for an answer, that is a process that has ended.
func Now(fd uintptr, events int16) (ready int16, err error) {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		_, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return fds[0].Revents, err
		}
	}
}

// Ready reports whether a descriptor can be read, or its other end is closed. Where that cannot be known, or it is closed,
// it is not.
func Ready(of syscall.RawConn) (ready bool) {
	_ = of.Control(func(fd uintptr) {
		events, err := Now(fd, unix.POLLIN)
		ready = err == nil && events != 0
	})
	return ready
}
