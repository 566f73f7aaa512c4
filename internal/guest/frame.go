package guest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
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
	OpenFiles uint64 `json:"open_files,omitempty"`
	Processes uint64 `json:"processes,omitempty"` // threads count
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
func Encode(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(body) > MaxFrame {
		return nil, fmt.Errorf("frame of %d bytes: the limit is %d", len(body), MaxFrame)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), nil
}

// Decode reads one frame of at most limit bytes into v. A frame that is too long, is not JSON or has
// unknown fields is an error; io.EOF means that the stream ended between frames.
func Decode(r io.Reader, v any, limit int) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if int64(n) > int64(limit) {
		return fmt.Errorf("frame of %d bytes: the limit is %d", n, limit)
	}
	// The body grows as it arrives: a length alone must not cost memory.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(n)); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	d := json.NewDecoder(&body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("frame: %w", err)
	}
	if d.More() {
		return fmt.Errorf("frame: more than one value")
	}
	return nil
}
