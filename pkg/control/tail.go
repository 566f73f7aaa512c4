package control

import "github.com/assay-run/assay/pkg/job"

// TailRequest asks the worker that runs a job what its program has written. Nothing is sent,
// or kept, unless somebody asks.
type TailRequest struct {
	Lease  job.Lease `json:"lease,omitempty"`  // that what is known is of; another: all from the beginning
	Step   int       `json:"step,omitempty"`   // of a command with steps
	Stdout int64     `json:"stdout,omitempty"` // offset from which on more is wanted
	Stderr int64     `json:"stderr,omitempty"`
	Most   int       `json:"most,omitempty"` // bytes of each
}

// Tail answers it. What was written is in SessionReply.Data, that of stdout first.
type Tail struct {
	Lease  job.Lease `json:"lease"`
	Blind  bool      `json:"blind,omitempty"` // what this program writes can only be read when it is over
	Begun  bool      `json:"begun,omitempty"` // there is a program, and the rest is about its step
	Step   int       `json:"step,omitempty"`
	Over   bool      `json:"over,omitempty"` // there is a later step
	Stdout Written   `json:"stdout"`
	Stderr Written   `json:"stderr"`
}

// Written is a part of a stream.
type Written struct {
	At    int64 `json:"at"` // its offset, later than was asked for if what is between is not kept
	Bytes int   `json:"bytes"`
}
