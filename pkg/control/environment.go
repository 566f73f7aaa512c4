package control

// EnvironmentRequest requests the digest of a package environment that the worker may download
// instead of building it, or reports the digest of one that it has built. It needs no protocol
// version. No dispatcher of an older release answers it, which is job.ErrUnavailable at once, and
// the worker builds for itself.
type EnvironmentRequest struct {
	Worker string `json:"worker"`
	// Name identifies the requested packages: 64 lower-case hex digits.
	Name string `json:"name"`
	// Digest is the digest of the worker's own build under that name ("sha256:…"). It is empty in a
	// query. A worker cannot vouch for environments that it downloaded.
	Digest string `json:"digest,omitempty"`

	// Pool is the worker's pool. Witness vouches for the report: the worker, or all workers of the
	// pool together that joined with a join token, as one machine can be any number of these. Both
	// follow from the request's subject and are not sent.
	Pool    string `json:"-"`
	Witness string `json:"-"`
}

// EnvironmentReply answers an EnvironmentRequest.
type EnvironmentReply struct {
	// Digest is the environment that enough workers of the sender's pool have built under the name.
	// It is empty if too few have, or if the request was a report.
	Digest string `json:"digest,omitempty"`
	// Off is set if environments are not shared: none need be stored.
	Off bool `json:"off,omitempty"`
}
