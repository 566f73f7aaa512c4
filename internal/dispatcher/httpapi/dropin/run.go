package dropin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/files"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/object"
)

// program is a program to run, independent of the endpoint's format.
type program struct {
	endpoint string // endpoint of the request
	language *language.Language
	files    map[string]string   // sources: relative path → text
	main     string              // one of files
	inputs   map[string]job.File // by relative path
	stdin    string
	args     []string
	compile  job.Compile
	limits
}

// programResult is the result of a program with its complete outputs. The program may have failed to compile or to be set up.
type programResult struct {
	job.Result
	stdout, stderr string
}

// errLate reports that a program has no result within the time of its request. It is no verdict on the program, and the
// client should retry.
var errLate = fmt.Errorf("%w: the fleet did not start this program within the time of the request; send it again", job.ErrUnavailable)

const (
	// retryPause is the pause before another attempt to submit when there is no room.
	retryPause = 200 * time.Millisecond
	// shortest is the least remaining time for an attempt.
	shortest = 10 * time.Millisecond
)

// run runs a program and waits for its result. It retries temporary errors until the time of the request has passed,
// and then returns errLate. It also returns errLate for failures of this system.
func (h *Handlers) run(r *http.Request, p *program, until time.Time) (*programResult, error) {
	policy, err := h.policy(r.Context(), web.Tenant(r), p.limits)
	if err != nil {
		return nil, err
	}
	ceiling, err := h.Ceiling(r.Context(), web.Tenant(r))
	if err != nil {
		return nil, err
	}
	p.compile.Wall, p.compile.Memory = capAt(p.compile.Wall, ceiling.Wall), capAt(p.compile.Memory, ceiling.Memory)
	for {
		left := time.Until(until)
		if left < shortest {
			return nil, errLate
		}
		spec, err := json.Marshal(p.spec(h.imageOf(p.language), policy, left))
		if err != nil {
			return nil, fmt.Errorf("encode spec: %w", err)
		}
		id, raw, err := h.Jobs.RunJob(r, spec, left)
		if id != "" && raw == nil {
			h.Jobs.CancelJob(r, id)
		}
		switch {
		case raw != nil:
			return h.decodeResult(r, raw)
		case err == nil:
			return nil, errLate
		case !isTemporary(err) || r.Context().Err() != nil:
			return nil, err
		}
		pause(r.Context(), min(retryPause, left))
	}
}

// isTemporary reports whether an error is temporary.
func isTemporary(err error) bool {
	return errors.Is(err, job.ErrTooMany) || errors.Is(err, job.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

func pause(ctx context.Context, d time.Duration) { web.Sleep(ctx, d, nil) }

// spec returns the job for a program. The job expires with the request: so it never starts later, even if this
// dispatcher dies before it can cancel the job.
func (p *program) spec(image string, policy json.RawMessage, wait time.Duration) job.Spec {
	s := job.Spec{
		Name: p.endpoint, Image: image, Program: p.program(), Policy: policy, ExpiresIn: job.Duration(wait),
		Files: make(map[string]job.File, len(p.inputs)),
	}
	for name, f := range p.inputs {
		s.Files[path.Join(workdir, name)] = f
	}
	return s
}

// decodeResult decodes a result. It returns errLate for an outcome that is not the program's, if a retry may succeed.
func (h *Handlers) decodeResult(r *http.Request, raw json.RawMessage) (*programResult, error) {
	e := &programResult{}
	if err := json.Unmarshal(raw, &e.Result); err != nil {
		return nil, fmt.Errorf("decode a result: %w", err)
	}
	if !e.Outcome.OfProgram() && e.Outcome != job.SetupError {
		return nil, fmt.Errorf("%w: job %s: %s: %s", errLate, e.ID, e.Outcome, e.Message)
	}
	var err error
	if e.stdout, err = h.whole(r, e, "stdout", &e.Stdout); err == nil {
		e.stderr, err = h.whole(r, e, "stderr", &e.Stderr)
	}
	return e, err
}

// whole returns a complete recorded output. A result has only the ends of a large output; the rest is stored
// separately.
func (h *Handlers) whole(r *http.Request, e *programResult, stream string, o *job.Output) (string, error) {
	if o.Stored == nil {
		return o.Text, nil
	}
	stored, err := h.Files.OpenOutput(r.Context(), web.Tenant(r), e.ID, stream, object.WholeOutput, o.Stored)
	if err != nil {
		return "", fmt.Errorf("%w: open %s of job %s: %v", job.ErrUnavailable, stream, e.ID, err)
	}
	defer stored.Close()
	all, err := io.ReadAll(files.Checked(stored, o.Stored.SHA256))
	if err != nil {
		return "", fmt.Errorf("%w: read %s of job %s: %v", job.ErrUnavailable, stream, e.ID, err)
	}
	return text(string(all)), nil
}

// signals maps the signals that end programs to their numbers on Linux.
var signals = map[string]int{
	"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9, "SIGUSR1": 10,
	"SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGSYS": 31,
}

// exit returns how a parent process would see the program's end: an exit code, or a signal. A program stopped at a
// limit was killed.
func (e *programResult) exit() (code int, signal string) {
	switch {
	case e.Outcome == job.Succeeded:
		return 0, ""
	case e.Signal != "":
		return 0, e.Signal
	case e.ExitCode != nil && *e.ExitCode != 0:
		return *e.ExitCode, ""
	case e.Outcome == job.OutOfMemory, e.Outcome == job.TimedOut, e.Outcome == job.OutputLimit, e.Outcome == job.PolicyViolation:
		return 0, "SIGKILL"
	}
	return 1, ""
}

// extra extends the responses of other servers.
type extra struct {
	Job       job.ID      `json:"job,omitempty"` // empty: the program did not run
	Outcome   job.Outcome `json:"outcome,omitempty"`
	Message   string      `json:"message,omitempty"`
	Truncated bool        `json:"truncated,omitempty"` // an output is truncated
	Compiled  string      `json:"compiled,omitempty"`  // "cached", or the outcome of the compiler
	Usage     job.Usage   `json:"usage"`
	Feedback  []string    `json:"feedback,omitempty"`
}

func (e *programResult) extra() *extra {
	x := &extra{Job: e.ID, Outcome: e.Outcome, Message: e.Message, Usage: e.Usage, Feedback: e.Feedback, Truncated: e.Stdout.Truncated || e.Stderr.Truncated}
	if c := e.Compiled; c != nil {
		x.Compiled = string(c.Outcome)
		if c.Cached {
			x.Compiled = "cached"
		}
	}
	return x
}

// wall returns the program's run time in milliseconds as its limit counts it: without waiting for a core.
func wall(u *job.Usage) float64 { return max(u.WallMS-u.WaitedMS, 0) }

// seconds converts milliseconds to seconds.
func seconds(ms float64) float64 { return ms / 1000 }
