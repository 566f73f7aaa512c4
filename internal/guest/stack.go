package guest

// StackLimit is the stack limit of a program's main thread, in KiB. 0 leaves the limit unchanged.
// The highest bit, stackHard, prevents the program from raising it.
type StackLimit uint32

// MostStack is the soft limit, in bytes, of processes that become programs without execve. The
// kernel reserves address space for a stack of this size at their start, so that a lower or higher
// limit can be set later.
const MostStack = 64 << 30

const stackHard StackLimit = 1 << 31

// NewStackLimit returns the limit of a stack of this many bytes.
func NewStackLimit(bytes int64, hard bool) StackLimit {
	l := StackLimit(min(bytes, MostStack) >> 10)
	if hard {
		l |= stackHard
	}
	return l
}

// Bytes returns the limit in bytes.
//
//go:nosplit
func (l StackLimit) Bytes() uint64 { return uint64(l&^stackHard) << 10 }

// Hard reports whether the program cannot raise the limit.
//
//go:nosplit
func (l StackLimit) Hard() bool { return l&stackHard != 0 }
