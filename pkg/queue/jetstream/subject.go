package jetstream

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// The names on the server.
const (
	streamName     = "JOBS"
	streamSubject  = "jobs.>"
	lane           = "normal" // the subject has room for lanes of their own consumers
	controlPrefix  = "assay.control."
	cancelPrefix   = "assay.cancel."
	assignPrefix   = "assay.assign."
	wakePrefix     = "assay.wake."
	classesSubject = "assay.classes"
	serverGroup    = "dispatchers"
)

// subject returns where a dispatch is published: always the same for the same
// reference.
func subject(d store.Dispatch) string {
	return "jobs." + token(d.Pool) + "." + lane + "." + string(d.Job) + "." + strconv.Itoa(int(d.Generation))
}

func poolSubjects(pool string) string { return "jobs." + token(pool) + ".>" }

// consumerName is short enough for a file's name, however long the pool's is.
func consumerName(pool string) string {
	name := token(pool)
	if len(name) > 100 {
		name = fmt.Sprintf("=%x", sha256.Sum256([]byte(pool)))
	}
	return "pool-" + name
}

// parseRef reads the reference that subject wrote.
func parseRef(subject string) (store.Ref, error) {
	parts := strings.Split(subject, ".")
	if len(parts) != 5 {
		return store.Ref{}, fmt.Errorf("%w: subject %q is not a delivery", job.ErrInvalid, subject)
	}
	id, err := job.ParseID(parts[3])
	if err != nil {
		return store.Ref{}, fmt.Errorf("subject %q: %w", subject, err)
	}
	gen, err := strconv.ParseInt(parts[4], 10, 32)
	if err != nil {
		return store.Ref{}, fmt.Errorf("%w: subject %q has no generation", job.ErrInvalid, subject)
	}
	return store.Ref{Job: id, Generation: job.Generation(gen)}, nil
}

// token makes one word of a subject, or part of a consumer's name, out of any
// name: what NATS gives a meaning to is written as =XX. Different names yield
// different tokens.
func token(name string) string {
	plain := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	if b.Len() == 0 {
		return "=" // an empty name is a name too
	}
	return b.String()
}
