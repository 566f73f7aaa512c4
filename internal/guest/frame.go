package guest

import (
	"fmt"
	"io"

	"github.com/assay-run/assay/internal/frame"
)

// Version is the version of this protocol. Worker and guest come from the same build, and a worker
// rejects a guest with another version.
const Version = 1

// MaxFrame is the longest body of a frame, in bytes. Large data (input, output, code, results) uses
// descriptors instead.
const MaxFrame = 4 << 20

// MaxWord is the longest body of a frame to the worker, which only receives Hello and ExitStatus.
const MaxWord = 64 << 10

// MaxFiles is the most descriptors of a Start, including the gate.
const MaxFiles = 16

// Hello is the guest's first frame.
type Hello struct {
	Version int `json:"version"`
}

// Start starts a program.
type Start struct {
	Argv   []string `json:"argv"`             // without a slash, Argv[0] is looked up in the PATH of Env
	Env    []string `json:"env"`              // the whole environment
	Dir    string   `json:"dir"`              // working directory
	UID    int      `json:"uid"`              // in the sandbox's user namespace
	GID    int      `json:"gid"`              //
	Filter []byte   `json:"filter,omitempty"` // a seccomp filter, as the kernel's array of sock_filter

	// Limits of the program in a sandbox with its own kernel, where the worker cannot set them from
	// outside. 0: the worker sets them.
	OpenFiles uint64     `json:"open_files,omitempty"`
	Processes uint64     `json:"processes,omitempty"` // includes threads
	Stack     StackLimit `json:"stack,omitempty"`
}

// ExitStatus reports the end of a program.
type ExitStatus struct {
	Status int    `json:"status"`          // from wait4
	Error  string `json:"error,omitempty"` // the guest could not start it: our failure
}

// The bytes on the gate.
const (
	GateReady  byte = 'h'
	GateGo     byte = 'g'
	GateFailed byte = 'f'
)

// Stage is the step of a child that failed before it became the program.
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

// Decode reads one frame of at most limit bytes into v, like frame.Decode.
func Decode(r io.Reader, v any, limit int) error { return frame.Decode(r, v, limit) }
