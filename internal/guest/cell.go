package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The kinds of messages of isolation cell, the first byte of each: see the package's comment.
const (
	CellLauncher byte = 'L'
	CellMake     byte = 'm'
	CellZygote   byte = 'z'
	CellNoZygote byte = 'n'

	ZygoteHello byte = 'Z'
	ZygoteFork  byte = 'f'
	ZygoteEnded byte = 'e'

	BoxReady    byte = 'h'
	BoxFailed   byte = '!'
	BoxEnter    byte = 'g'
	BoxWaiting  byte = 'w'
	BoxWarmUp   byte = 'r'
	BoxRun      byte = 'x'
	BoxRunFile  byte = 'X'
	BoxNotBegun byte = 'f'
	BoxEnded    byte = 'e'
)

// Kinds of zygotes. Each page that a zygote holds is a cost of every fork, so
// that for programs, of which there are most, holds nothing that they do not use.
const (
	ZygotePrograms byte = 'p'
	ZygoteServices byte = 's' // has imported what grades, and what serves sessions
)

// What the root of a cell's programs is to a zygote, which always starts from the
// cell's own. In another one there are packages that are not in the zygote's: what it
// forks looks for them once it is confined, and none is preloaded.
const (
	RootOwn   byte = '='
	RootOther byte = '+'
)

// PreloadVariable is the variable of an image's environment that names modules,
// separated by commas, which its zygotes import besides their own, if the image is
// the operator's and has no packages on top.
const PreloadVariable = "ASSAY_PRELOAD"

// What a program is told of its machine: the cores and the memory of its policy.
// Libraries size their thread pools and caches by it. Two files of its scratch lie over
// the kernel's, and the program's processes are bound to as many cores. The limits
// are the control group's: a program that does not believe this gains nothing.
const (
	CPUOnline = "/sys/devices/system/cpu/online"
	MemInfo   = "/proc/meminfo"

	ViewCPUs   = "cpus" // what lies over CPUOnline
	ViewMemory = "meminfo"
)

// MaxMessage is the longest message on any of a cell's sockets, in bytes.
const MaxMessage = 32 << 10

// MaxRun is the longest Run, in bytes, and MaxStrings the most strings that it
// may have: what the supervisor has room for.
const (
	MaxRun     = 4 << 20
	MaxStrings = 1 << 16
)

// Box says how a box differs from others of its cell.
type Box struct {
	Paths    []string `json:"paths"`     // added to the image where they are not in it; directory w<i> of scratch goes on the i-th
	ReadOnly int      `json:"read_only"` // so many of the last ones

	// Nested boxes have namespaces inside those of another box, whose user owns
	// them: a process of that one may enter them, and nothing else may. A copy of
	// a live interpreter does: see runtime.Forker.
	Nested bool `json:"nested,omitempty"`

	// Holds says that boxes of other users of the cell will be nested in it, and Own that
	// a nested box is one: it has the user that the message names, not its parent's.
	Holds bool `json:"holds,omitempty"`
	Own   bool `json:"own,omitempty"`

	// First, unless 0, is the number of the first process in a nested box. No two that
	// are copies of one another have the same: libraries, OpenSSL among them, tell by
	// that alone that they were forked, and need another seed.
	First int `json:"first,omitempty"`
}

// MaxNesting is how many boxes there may be one inside the other. The kernel
// nests 32 pid namespaces, and engines have some of their own.
const MaxNesting = 24

// Run is a program to run in a box.
type Run struct {
	Argv      []string
	Env       []string
	Dir       string
	OpenFiles uint64
	Stack     StackLimit
	Filter    []byte // seccomp filter, an array of sock_filter
}

// RunHead is the length of what comes before a Run's filter and strings.
const RunHead = 32

// Marshal returns the message for r: kind, padding, the counts of paths, argv
// and env, the length of the filter, the stack, the open files, all little-endian; then
// the filter; then dir, the paths to try, argv and env, each ended by a NUL.
// The layout is what a process can read that has no Go runtime any more.
func (r *Run) Marshal() ([]byte, error) {
	if len(r.Argv) == 0 {
		return nil, errors.New("run: needs argv")
	}
	if len(r.Filter)%8 != 0 || len(r.Filter)/8 > 4096 {
		return nil, fmt.Errorf("run: bad filter of %d bytes", len(r.Filter))
	}
	paths := SearchPath(r.Argv[0], r.Env)
	if n := 1 + len(paths) + len(r.Argv) + len(r.Env); n+3 > MaxStrings {
		return nil, fmt.Errorf("run: %d strings; at most %d", n, MaxStrings-3)
	}
	b := make([]byte, RunHead, RunHead+len(r.Filter)+1024)
	b[0] = BoxRun
	for i, n := range []int{len(paths), len(r.Argv), len(r.Env), len(r.Filter)} {
		binary.LittleEndian.PutUint32(b[4+4*i:], uint32(n))
	}
	binary.LittleEndian.PutUint32(b[20:], uint32(r.Stack))
	binary.LittleEndian.PutUint64(b[24:], r.OpenFiles)
	b = append(b, r.Filter...)
	for _, list := range [][]string{{r.Dir}, paths, r.Argv, r.Env} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return nil, fmt.Errorf("run: %.40q contains a NUL byte", s)
			}
			b = append(append(b, s...), 0)
		}
	}
	if len(b) > MaxRun {
		return nil, fmt.Errorf("run: %d bytes; at most %d", len(b), MaxRun)
	}
	return b, nil
}
