package control

import (
	"bytes"
	"encoding/json"

	"github.com/assay-run/assay/pkg/placement"
)

// The versions of what workers and dispatchers say to each other. A release that says what
// the one before does not understand, or understands otherwise, has the next one. Fields
// that may be left out and ignored need none, nor do requests that a worker can do without an
// answer to.
//
// Programs of two releases work side by side while a fleet is upgraded and rolled back. A
// worker says in each heartbeat what it speaks, and is answered with the lowest version of
// the dispatchers that are connected to the store (store.Registry); until it has an answer
// it speaks ProtocolNone. Dispatchers understand all versions. A job whose spec an older worker would read over goes to
// none: placement.VersionOf says which version it needs.
const (
	ProtocolNone     = 0 // releases that say no version
	ProtocolOutputs  = 1 // outputs may be beside the result: job.Output.Stored
	ProtocolOutcomes = 2 // an outcome may be job.CheckError or job.SetupError

	// ProtocolCompiled: an outcome may be job.CompileError, and workers know the fields of placement.Languages.
	ProtocolCompiled = placement.Languages

	// ProtocolValues: workers know the fields of placement.Values.
	ProtocolValues = placement.Values

	// Protocol is the highest version that this program speaks.
	Protocol = ProtocolValues
)

// WithoutResult makes of the first bytes of a FinishRequest, which Encode has made larger
// than MaxRequest, one that says how large the result was (FinishRequest.Omitted). It
// reports false unless there is one result, and all before it is in first: workers send
// what is refused with others by itself.
func WithoutResult(first []byte) ([]byte, bool) {
	head, _, whole := bytes.Cut(first, []byte("\n"))
	var r FinishRequest
	if !whole || json.Unmarshal(head, &r) != nil || len(r.Finishes) != 1 || len(r.Sizes) != 1 || r.Sizes[0] <= 0 {
		return nil, false
	}
	r.Omitted, r.Sizes = r.Sizes[0], nil
	out, err := json.Marshal(r)
	return out, err == nil
}
