package control

import "github.com/assay-run/assay/pkg/job"

// TailRequest requests the output of a running job's program from its worker. Output is sent and
// kept only on request.
type TailRequest struct {
	Lease  job.Lease `json:"lease,omitempty"`  // of the output that the client has; another: from the beginning
	Step   int       `json:"step,omitempty"`   // of a command with steps
	Stdout int64     `json:"stdout,omitempty"` // offset of the first wanted byte
	Stderr int64     `json:"stderr,omitempty"`
	Most   int       `json:"most,omitempty"` // bytes of each
}

// Tail answers a TailRequest. The output is in SessionReply.Data, that from stdout first.
type Tail struct {
	Lease  job.Lease `json:"lease"`
	Blind  bool      `json:"blind,omitempty"` // this program's output can only be read after its end
	Begun  bool      `json:"begun,omitempty"` // a program has started, and the other fields describe its step
	Step   int       `json:"step,omitempty"`
	Over   bool      `json:"over,omitempty"` // there is a later step
	Stdout Written   `json:"stdout"`
	Stderr Written   `json:"stderr"`
}

// Written is a part of a stream.
type Written struct {
	At    int64 `json:"at"` // its offset; later than requested if the bytes between are no longer kept
	Bytes int   `json:"bytes"`
}
