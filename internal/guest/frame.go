package guest

import (
	"fmt"
	"io"

	"github.com/assay-run/assay/internal/frame"
)

// Version is of this protocol. Worker and guest come from the same build, and a
// worker refuses a guest that says otherwise.
const Version = 1

// MaxFrame is the longest body of a frame, in bytes. Everything that can be
// large (input, output, code, results) travels through descriptors instead.
const MaxFrame = 4 << 20

// MaxWord is the longest of those to the worker: it has Hello and Ended to hear.
const MaxWord = 64 << 10

// MaxFiles is the most descriptors that a Start carries, the gate included.
const MaxFiles = 16

// Hello is the guest's first frame.
type Hello struct {
	Version int `json:"version"`
}

// Start starts a program.
type Start struct {
	Argv   []string `json:"argv"`             // Argv[0] without a slash is looked up in PATH of Env
	Env    []string `json:"env"`              // the whole environment
	Dir    string   `json:"dir"`              // working directory
	UID    int      `json:"uid"`              // in the sandbox's user namespace
	GID    int      `json:"gid"`              //
	Filter []byte   `json:"filter,omitempty"` // a seccomp filter, as the kernel's array of sock_filter

	// Limits of the program, where the sandbox has a kernel of its own, so that
	// the worker cannot set them from outside; 0: it has.
	OpenFiles uint64     `json:"open_files,omitempty"`
	Processes uint64     `json:"processes,omitempty"` // threads count
	Stack     StackLimit `json:"stack,omitempty"`
}

// Ended says how a program ended.
type Ended struct {
	Status int    `json:"status"`          // as wait4 reports it
	Error  string `json:"error,omitempty"` // the guest could not start it: our failure
}

// The bytes that pass the gate.
const (
	GateHere   byte = 'h'
	GateGo     byte = 'g'
	GateFailed byte = 'f'
)

// Stage is what a child was doing when it failed before it became the program.
type Stage byte

// The stages.
const (
	StageFiles Stage = iota + 1
	StageIdentity
	StageDir
	StageFilter
	StageExec
	StageFork
)

func (s Stage) String() string {
	names := [...]string{"", "take descriptors", "change identity", "enter directory", "install filter", "execute", "fork"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("stage %d", byte(s))
}

// Encode returns v as a frame.
func Encode(v any) ([]byte, error) { return frame.Encode(v, MaxFrame) }

// Decode reads one frame of at most limit bytes into v, as frame.Decode does.
func Decode(r io.Reader, v any, limit int) error { return frame.Decode(r, v, limit) }
