package control

// EnvironmentRequest asks which environment of packages a worker may take from the object
// store in place of building it, or states which one it has built. It needs no version of
// the protocol: a dispatcher of an older release has nobody who answers it, which is
// job.ErrUnavailable at once, and the worker builds for itself.
type EnvironmentRequest struct {
	Worker string `json:"worker"`
	// Name is that of what was asked for: 64 lower-case hex digits.
	Name string `json:"name"`
	// Digest is what the worker itself has built under that name ("sha256:…"); empty: it
	// only asks. What it has fetched is nothing that it can vouch for.
	Digest string `json:"digest,omitempty"`

	// Pool is the worker's, and Witness who vouches for what it states: the worker, or all
	// workers of the pool together that came with its join token, of which one machine can
	// be any number. Both are known by the way the request came, and are not sent.
	Pool    string `json:"-"`
	Witness string `json:"-"`
}

// EnvironmentReply answers an EnvironmentRequest.
type EnvironmentReply struct {
	// Digest is what enough workers of the asker's pool have built under the name; empty:
	// not enough have, or the request was a statement.
	Digest string `json:"digest,omitempty"`
	// Off says that environments are not shared: none need be stored.
	Off bool `json:"off,omitempty"`
}
