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
	streamName      = "JOBS"
	streamSubject   = "jobs.>"
	lane            = "normal"      // the subject has room for lanes of their own consumers
	requestPrefix   = "assay.req."  // <pool>.<worker>.<kind>: what a worker says
	workerPrefix    = "assay.to."   // <worker>.<kind>: what is said to one worker
	poolPrefix      = "assay.pool." // <pool>.<kind>: what is said to the workers of a pool
	restPrefix      = "assay.rest." // <worker>.<…>: where a worker asks for more of what it is told
	answerPrefix    = "assay.ans."  // <worker>.<dispatcher>.<n>: where a worker answers a dispatcher
	wakePrefix      = "assay.wake." // <topic>: among dispatchers
	workerInbox     = "_INBOX.w."   // <worker>.<…>
	dispatcherInbox = "_INBOX.d"
	serverGroup     = "dispatchers"
)

// The kinds of what is said to workers.
const (
	kindCancel  = "cancel"
	kindAssign  = "assign"
	kindSession = "session"
	kindKey     = "key"
	kindClasses = "classes"
)

// toWorker is where a worker listens.
func toWorker(worker, kind string) string { return workerPrefix + token(worker) + "." + kind }

// inboxOf is the beginning of every subject at which a worker hears answers.
func inboxOf(worker string) string { return workerInbox + token(worker) }

// literal says whether a subject is one below a prefix, and no pattern: a subject that
// somebody else has named is published on only if it is.
func literal(subject, prefix string) bool {
	rest, ok := strings.CutPrefix(subject, prefix)
	if !ok {
		return false
	}
	for _, word := range strings.Split(rest, ".") {
		if word == "" || strings.ContainsFunc(word, func(r rune) bool { return r != '=' && !plain(r) }) {
			return false
		}
	}
	return true
}

// plain says of a character that NATS gives it no meaning.
func plain[C byte | rune](c C) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// speaker reads who says something from the subject: the server lets nobody else
// publish on it.
func speaker(subject string) (pool, worker string, err error) {
	parts := strings.Split(subject, ".")
	if len(parts) < 5 {
		return "", "", fmt.Errorf("%w: subject %q names no worker", job.ErrInvalid, subject)
	}
	if pool, err = untoken(parts[2]); err == nil {
		worker, err = untoken(parts[3])
	}
	if err != nil {
		return "", "", fmt.Errorf("%w: subject %q names no worker", job.ErrInvalid, subject)
	}
	return pool, worker, nil
}

// subject returns where a dispatch is published: always the same for the same
// reference.
func subject(d store.Dispatch) string {
	return "jobs." + token(d.Pool) + "." + lane + "." + string(d.Job) + "." + strconv.Itoa(int(d.Generation))
}

func classSubjects(class string) string { return "jobs." + token(class) + ".>" }

// consumerName names the consumer of a pool or class. Where workers are told apart,
// those of other pools cannot guess it.
func (q *Queue) consumerName(class string) string {
	if q.cfg.Key == nil {
		return consumerName(class)
	}
	return consumerName(class) + "-" + q.cfg.Key.Name("consumer "+class)
}

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

// untoken reads what token wrote, and nothing else: one name has one token.
func untoken(t string) (string, error) {
	if t == "=" {
		return "", nil
	}
	var b strings.Builder
	for i := 0; i < len(t); i++ {
		if t[i] != '=' {
			b.WriteByte(t[i])
			continue
		}
		if i+2 >= len(t) {
			return "", fmt.Errorf("%w: %q is no token", job.ErrInvalid, t)
		}
		c, err := strconv.ParseUint(t[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("%w: %q is no token", job.ErrInvalid, t)
		}
		b.WriteByte(byte(c))
		i += 2
	}
	if name := b.String(); token(name) == t {
		return name, nil
	}
	return "", fmt.Errorf("%w: %q is no token", job.ErrInvalid, t)
}
