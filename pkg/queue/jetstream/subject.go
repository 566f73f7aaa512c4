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
	lane            = "normal"      // reserves a component for lanes with their own consumers
	requestPrefix   = "assay.req."  // <pool>.<worker>.<kind>: requests from a worker
	workerPrefix    = "assay.to."   // <worker>.<kind>: requests to one worker
	poolPrefix      = "assay.pool." // <pool>.<kind>: messages to the workers of a pool
	restPrefix      = "assay.rest." // <worker>.<…>: where a worker requests the rest of a frame
	answerPrefix    = "assay.ans."  // <worker>.<dispatcher>.<n>: responses of a worker to a dispatcher
	wakePrefix      = "assay.wake." // <topic>: messages among dispatchers
	workerInbox     = "_INBOX.w."   // <worker>.<…>
	dispatcherInbox = "_INBOX.d"
	serverGroup     = "dispatchers"
)

// The kinds of messages to workers.
const (
	kindCancel  = "cancel"
	kindAssign  = "assign"
	kindSession = "session"
	kindKey     = "key"
	kindClasses = "classes"
)

// toWorker returns the subject of requests to a worker.
func toWorker(worker, kind string) string { return workerPrefix + token(worker) + "." + kind }

// inboxOf returns the prefix of the subjects on which a worker receives responses.
func inboxOf(worker string) string { return workerInbox + token(worker) }

// literal reports whether a subject is below a prefix and has no wildcards. Only such a subject
// from another process may be published on.
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

// plain reports whether a character has no special meaning in NATS.
func plain[C byte | rune](c C) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// speaker returns the sender from the subject, which the server has authenticated.
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

// subject returns the subject of a dispatch. It is a function of the reference.
func subject(d store.Dispatch) string {
	return "jobs." + token(d.Pool) + "." + lane + "." + string(d.Job) + "." + strconv.Itoa(int(d.Generation))
}

func classSubjects(class string) string { return "jobs." + token(class) + ".>" }

// consumerName returns the name of the consumer of a pool or class. With authentication, workers of
// other pools cannot guess it.
func (q *Queue) consumerName(class string) string {
	if q.cfg.Key == nil {
		return consumerName(class)
	}
	return consumerName(class) + "-" + q.cfg.Key.Name("consumer "+class)
}

// consumerName returns a name that is short enough for a file, for any length of the pool's name.
func consumerName(pool string) string {
	name := token(pool)
	if len(name) > 100 {
		name = fmt.Sprintf("=%x", sha256.Sum256([]byte(pool)))
	}
	return "pool-" + name
}

// parseRef reads the reference from the output of subject.
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

// token encodes any name as one component of a subject or a part of a consumer's name. It writes
// special characters as =XX. Different names yield different tokens.
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
		return "=" // an empty name is valid
	}
	return b.String()
}

// untoken reads the output of token and rejects other input, so that one name has one token.
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
