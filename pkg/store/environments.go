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

// Environments keeps what workers state that they have built: which environment of
// packages, by its content, came of what was asked for. It is what lets a worker take one
// from the object store, where every worker writes.
type Environments interface {
	// StateEnvironment keeps the last word of a witness for a name. job.ErrInvalid names the
	// field that is wrong.
	StateEnvironment(ctx context.Context, s EnvironmentStatement) error
	// Environment returns the digest that so many witnesses of a pool state for a name, or
	// more; of several the one that was stated last; empty: there is none. Statements of
	// other pools do not count.
	Environment(ctx context.Context, pool, name string, witnesses int) (digest string, err error)
	// ForgetEnvironments removes the statements that were last made longer than age ago,
	// and returns how many those were.
	ForgetEnvironments(ctx context.Context, age time.Duration) (int64, error)
}

// EnvironmentStatement is what one worker says of one name.
type EnvironmentStatement struct {
	Name    string // of what was asked for: 64 lower-case hex digits
	Pool    string
	Worker  string // that said so, for people
	Witness string // who vouches for it; several workers of a pool may be one
	Digest  string // of what came of it: "sha256:" and 64 lower-case hex digits
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

// CheckEnvironmentName returns job.ErrInvalid if name is not that of an environment.
func CheckEnvironmentName(name string) error {
	if !isSum(name) {
		return job.Invalid("name", "%.80q must be 64 lower-case hex digits", name)
	}
	return nil
}

func isSum(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }
