package store

import (
	"context"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// EnvironmentsMost is how many names the statements of a witness may have: of more, those
// go that it made longest ago.
const EnvironmentsMost = 1000

// Environments stores the workers' statements about built environments: the digest of the content that a name resulted
// in. With it a worker can trust an environment in the object store, where every worker writes.
type Environments interface {
	// StateEnvironment keeps the last word of a witness for a name. job.ErrInvalid names the
	// field that is wrong.
	StateEnvironment(ctx context.Context, s EnvironmentStatement) error
	// Environment returns the digest that at least so many witnesses of a pool state for a name; of several, the last
	// stated; empty if there is none. Statements of other pools do not count.
	Environment(ctx context.Context, pool, name string, witnesses int) (digest string, err error)
	// ForgetEnvironments removes the statements that were last made longer than age ago,
	// and returns how many those were.
	ForgetEnvironments(ctx context.Context, age time.Duration) (int64, error)
}

// EnvironmentStatement is one worker's statement about one name.
type EnvironmentStatement struct {
	Name    string // hash of the request: 64 lower-case hex digits
	Pool    string
	Worker  string // the stating worker, for people
	Witness string // the identity that counts; several workers of a pool may share it
	Digest  string // of the built content: "sha256:" and 64 lower-case hex digits
}

// Check returns job.ErrInvalid, with the field, if a statement cannot be one.
func (s EnvironmentStatement) Check() error {
	if err := CheckEnvironmentName(s.Name); err != nil {
		return err
	}
	sum, ok := strings.CutPrefix(s.Digest, "sha256:")
	switch {
	case !ok || !isSum(sum):
		return job.Invalid("digest", "%.80q must be sha256: and 64 lower-case hex digits", s.Digest)
	case s.Worker == "":
		return job.Invalid("worker", "must not be empty")
	case s.Witness == "":
		return job.Invalid("witness", "must not be empty")
	}
	return nil
}

// CheckEnvironmentName returns job.ErrInvalid if name is not an environment's name.
func CheckEnvironmentName(name string) error {
	if !isSum(name) {
		return job.Invalid("name", "%.80q must be 64 lower-case hex digits", name)
	}
	return nil
}

func isSum(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }
