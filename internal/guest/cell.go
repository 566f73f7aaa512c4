package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The kinds of messages of isolation cell, the first byte of each: see the package comment.
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

// Kinds of zygotes. Every fork pays for each page of its zygote, so the zygote for programs, the
// most frequent kind, holds only their needs.
const (
	ZygotePrograms byte = 'p'
	ZygoteServices byte = 's' // has imported the modules for grading and sessions
)

// How the root of a cell's programs relates to a zygote, which always starts from the cell's own
// root. Another root has packages that the zygote lacks: the forked program finds them after its
// confinement, and none is preloaded.
const (
	RootOwn   byte = '='
	RootOther byte = '+'
)

// PreloadVariable is an environment variable of an image with modules, separated by commas. The
// image's zygotes import them, if it is an operator's image without additional packages.
const PreloadVariable = "ASSAY_PRELOAD"

// Files that show a program the cores and memory of its policy, because libraries size their thread
// pools and caches by them. Two files of its scratch are mounted over the kernel's, and the
// program's processes are bound to as many cores. The control group enforces the limits regardless.
const (
	CPUOnline = "/sys/devices/system/cpu/online"
	MemInfo   = "/proc/meminfo"

	ViewCPUs   = "cpus" // mounted over CPUOnline
	ViewMemory = "meminfo"
)

// MaxMessage is the longest message on a cell's sockets, in bytes.
const MaxMessage = 32 << 10

// MaxRun is the longest Run in bytes, and MaxStrings its most strings: the supervisor's buffer
// sizes.
const (
	MaxRun     = 4 << 20
	MaxStrings = 1 << 16
)

// Box describes how a box differs from others of its cell.
type Box struct {
	Paths    []string `json:"paths"`     // added to the image if missing; directory w<i> of scratch is mounted on the i-th
	ReadOnly int      `json:"read_only"` // number of read-only paths, at the end of Paths

	// Nested boxes have namespaces inside another box's, and their user namespace belongs to that
	// box's user. Only a process of that box can enter them, such as a copy of a live interpreter:
	// see runtime.Forker.
	Nested bool `json:"nested,omitempty"`

	// Holds announces nested boxes of other users of the cell. Own marks a nested box with its own
	// user: it has the user in the message, not its parent's.
	Holds bool `json:"holds,omitempty"`
	Own   bool `json:"own,omitempty"`

	// First, unless 0, is the number of the first process in a nested box. Copies of each other get
	// different numbers: libraries such as OpenSSL detect a fork only by this number and then reseed.
	First int `json:"first,omitempty"`
}

// MaxNesting is the maximum depth of nested boxes. The kernel nests 32 pid namespaces, and engines
// use some of them.
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

// RunHead is the length of the header before a Run's filter and strings.
const RunHead = 32

// Marshal returns the message for r. Its layout is readable by a process without a Go runtime:
//
//   - kind, padding, the counts of paths, argv and env, the length of the filter, and the limits of
//     stack and open files, all little-endian
//   - the filter
//   - dir, the paths to try, argv and env, each ended by a NUL
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
