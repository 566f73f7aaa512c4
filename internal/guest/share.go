package guest

import "fmt"

// Share is what one job may have of what the kernel counts for a whole host, or
// for the user who made the namespaces, whoever uses it. A share of 0 is none.
type Share struct {
	Signals   int64 // queued signals, and timers, each of which holds one
	Instances int64 // of inotify
	Watches   int64 // of inotify
	Terminals int64 // pseudo-terminals
}

// Locked is how much memory a program may lock, in bytes: what kernels allowed
// everybody before 5.16.
const Locked = 64 << 10

// String returns s as an argument of this program, which ParseShare reads.
func (s Share) String() string {
	return fmt.Sprintf("%d,%d,%d,%d", s.Signals, s.Instances, s.Watches, s.Terminals)
}

// ParseShare reads what String wrote.
func ParseShare(text string) (s Share, err error) {
	if _, err = fmt.Sscanf(text, "%d,%d,%d,%d", &s.Signals, &s.Instances, &s.Watches, &s.Terminals); err != nil {
		return s, fmt.Errorf("a share of the host: %q: %w", text, err)
	}
	return s, nil
}
