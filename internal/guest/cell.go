package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The guest of a cell: one container for many jobs of one tenant and image.
//
// The container's root is the operator's image, or an empty one, and never what a
// tenant brought: the root of boxes is bound into it, at /run/assay/root.
//
// Process 1 of the container is the launcher. It connects to the worker's socket, a
// SOCK_SEQPACKET one, which has no name any more when it has, and hands each zygote
// the connection that the worker made for it: nothing else in the container can
// ever speak with the worker. What follows is one message a line; descriptors
// travel as SCM_RIGHTS with it.
//
//	direction            message             descriptors     meaning
//	-------------------  ------------------  --------------  ----------------------------------------
//	launcher → worker    CellLauncher                        connected and waiting
//	worker   → launcher  CellMake, uid, Box  slot, scratch   make a box: the namespaces of one job, who is
//	                                         (, network)     user uid of the cell; that of the network is given or made
//	                                         (, parent)      or, for a nested Box, inside that of another;
//	                                         (, owner,       that of the network, and the user namespace that owns it,
//	                                         network)        are made for one that is Own if they are not given
//	worker   → launcher  CellZygote, kind,   connection      start a zygote of a kind
//	                     root
//	launcher → worker    CellNoZygote, kind, why             the zygote has ended
//	zygote   → worker    ZygoteHello, kind                   connected and waiting
//	worker   → zygote    ZygoteFork, id      slot, box       fork a process into the box
//	zygote   → worker    ZygoteEnded, …                      id and wait status of such a process
//
// A box is a process, the supervisor, that is process 1 of a pid namespace of its
// own, with user, mount, ipc and uts namespaces to match, its root made
// ready, in a network namespace that holds lo, and all capabilities dropped but
// those over its own namespaces. It has
// one socket, the slot:
//
//	supervisor → worker  BoxReady                            the walls stand (SO_PASSCRED: its pid)
//	supervisor → worker  BoxFailed, errno, name              a step of their making failed
//	worker → supervisor  BoxEnter                            it is in its control group
//	worker → supervisor  BoxRun, a Run       0, 1, 2, …      run a program, descriptors in order
//	worker → supervisor  BoxRunFile          0, 1, 2, …, run the same; the message is in the last file
//	supervisor → worker  BoxNotBegun, …                      what failed (a Stage) and the errno
//	supervisor → worker  BoxEnded, status                    the program has ended, nothing of it is left
//
// A process that a zygote forked (see guest/python/child.py) has a slot of its
// own and speaks the same, except that it says BoxReady before it is in its
// control group and BoxWaiting once it has entered it, becomes the program
// itself, and that its end is told by the zygote. Meanwhile it may be told to
// rehearse (BoxRehearse): to do what the job will have it do, for nothing. When the supervisor ends, by
// whatever cause, the kernel kills everything in its pid namespace; and the
// supervisor ends when its slot does.
//
// Nothing enters a network namespace but with rights over what owns it, which for those of
// the cell nobody in a box has. A nested box that is Own is therefore in one of a user
// namespace in between, inside that of the box which holds it and around its own: a process
// from there passes through it, gains the rights that it takes, and loses them in the box.
// So it can be used again as that of a plain box can, and no box has rights over it.
//
// User code never holds a slot: it is closed, by close-on-exec or by hand, before
// the first instruction of it. The supervisor cannot be traced or signalled by it:
// it is not dumpable, has capabilities that user code has not, and process 1 of
// a pid namespace takes no signal from inside that it has no handler for.
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
	BoxRehearse byte = 'r'
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
	Filter    []byte // seccomp filter, an array of sock_filter
}

// runHead is the length of what comes before a Run's filter and strings.
const runHead = 32

// Marshal returns the message for r: kind, padding, the counts of paths, argv
// and env, the length of the filter, the open files, all little-endian; then
// the filter; then dir, the paths to try, argv and env, each ended by a NUL.
// The layout is what a process can read that has no Go runtime any more.
func (r *Run) Marshal() ([]byte, error) {
	if len(r.Argv) == 0 {
		return nil, errors.New("run: needs argv")
	}
	if len(r.Filter)%8 != 0 || len(r.Filter)/8 > 4096 {
		return nil, fmt.Errorf("run: bad filter of %d bytes", len(r.Filter))
	}
	paths := candidates(r.Argv[0], r.Env)
	if n := 1 + len(paths) + len(r.Argv) + len(r.Env); n+3 > MaxStrings {
		return nil, fmt.Errorf("run: %d strings; at most %d", n, MaxStrings-3)
	}
	b := make([]byte, runHead, runHead+len(r.Filter)+1024)
	b[0] = BoxRun
	for i, n := range []int{len(paths), len(r.Argv), len(r.Env), len(r.Filter)} {
		binary.LittleEndian.PutUint32(b[4+4*i:], uint32(n))
	}
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
