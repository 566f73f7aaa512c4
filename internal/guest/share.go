package guest

import "fmt"

// Share is one job's share of resources that the kernel counts per host, or per creator of a
// namespace. 0 means none.
type Share struct {
	Signals   int64 // queued signals and timers, each of which reserves a signal
	Instances int64 // of inotify
	Watches   int64 // of inotify
	Terminals int64 // pseudo-terminals
}

// Locked is how much memory a program may lock, in bytes: the kernel's default before 5.16.
const Locked = 64 << 10

// String returns s as an argument of this program, for ParseShare.
func (s Share) String() string {
	return fmt.Sprintf("%d,%d,%d,%d", s.Signals, s.Instances, s.Watches, s.Terminals)
}

// ParseShare reads the output of String.
func ParseShare(text string) (s Share, err error) {
	if _, err = fmt.Sscanf(text, "%d,%d,%d,%d", &s.Signals, &s.Instances, &s.Watches, &s.Terminals); err != nil {
		return s, fmt.Errorf("a share of the host: %q: %w", text, err)
	}
	return s, nil
}
