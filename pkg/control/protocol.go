package control

import "github.com/assay-run/assay/pkg/placement"

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
