package control

import (
	"bytes"
	"encoding/json"

	"github.com/assay-run/assay/pkg/placement"
)

// The versions of the protocol between workers and dispatchers. A release has the next version if
// the previous release does not understand its messages, or understands them differently. Optional
// fields that receivers may ignore need no new version. Nor do requests whose answer a worker can
// do without.
//
// Programs of two releases work side by side while a fleet is upgraded and rolled back. A worker
// sends its highest version in each heartbeat. The answer is the lowest version of the dispatchers
// that are connected to the store (store.Registry). A job goes to no worker that would ignore
// fields of its spec: placement.VersionOf returns the version that it needs. Versions before
// placement.Languages were never released, and nothing supports them.
const (
	// ProtocolValues: workers support the fields of placement.Values.
	ProtocolValues = placement.Values

	// Protocol is the highest version that this program supports.
	Protocol = ProtocolValues
)

// WithoutResult takes the first bytes of an encoded FinishRequest larger than MaxRequest. It
// returns a request with the result's size instead of the result (FinishRequest.Omitted). It
// returns false unless there is one result, and first has everything before it. If a request with
// several results is refused, workers send each alone.
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
