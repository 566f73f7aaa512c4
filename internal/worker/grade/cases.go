package grade

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/worker/grade/value"
	"github.com/assay-run/assay/pkg/job"
)

type caseFrame struct {
	Op     string                     `json:"op"`
	ID     int64                      `json:"id"`
	Args   []json.RawMessage          `json:"args"`
	Kwargs map[string]json.RawMessage `json:"kwargs"`
	Wall   float64                    `json:"wall"` // seconds

	Ignore bool `json:"ignore,omitempty"` // the returned value
}

// runCases calls the function for each case and compares the returned value.
func (g *grading) runCases(ctx context.Context) error {
	for i := range g.Tests.Cases {
		c := &g.Tests.Cases[i]
		name := g.caseName(i)
		r, skip := g.skipped(name)
		if !skip {
			var err error
			if r, err = g.runCase(ctx, i, c); err != nil {
				return err
			}
			r.Name = name
		}
		g.add(r, c.Weight)
	}
	return nil
}

func (g *grading) caseName(i int) string {
	if name := g.Tests.Cases[i].Name; name != "" {
		return name
	}
	return "case " + strconv.Itoa(i+1)
}

func newCaseFrame(c *job.Case) caseFrame {
	f := caseFrame{Op: "case", Args: []json.RawMessage{}, Kwargs: map[string]json.RawMessage{}, Ignore: runsOnly(c)}
	for _, raw := range c.Args {
		f.Args = append(f.Args, value.ShortInts(raw))
	}
	for k, raw := range c.Kwargs {
		f.Kwargs[k] = value.ShortInts(raw)
	}
	return f
}

func (g *grading) runCase(ctx context.Context, i int, c *job.Case) (job.CaseResult, error) {
	began := time.Now()
	if bad := value.BadCase(c); bad != "" { // checked before the solution runs
		return job.CaseResult{Outcome: job.CheckError, Message: bad}, nil
	}
	if err := g.enter(ctx, false, nil); err != nil {
		return job.CaseResult{}, err
	}
	if g.unloaded != nil {
		r := *g.unloaded
		r.Expected = expectation(c)
		return r, nil
	}
	if r, skip := g.skipped(c.Name); skip { // loading the solution used up the time
		return r, nil
	}
	wall := g.share(g.Tests.WallOf(c.Wall), i == len(g.Tests.Cases)-1 && g.Tests.Check == "" && len(g.Tests.Stdio) == 0)
	f := newCaseFrame(c)
	f.ID, f.Wall = newID(), wall.Seconds()
	sent, until := time.Now(), g.now()+wall
	if err := g.box.send(f); err != nil {
		return job.CaseResult{}, err
	}
	got, err := g.answer(f.ID, until)
	took := time.Since(sent)
	if err == nil && got.value == nil && got.end.Signal == int(unix.SIGKILL) && !got.end.Timeout {
		// Perhaps the kernel killed it for its memory: then the sandbox is about to end.
		_, err = g.receive(g.box, g.now()+oomDelay)
		if late(err) {
			err = nil
		}
	}
	var r job.CaseResult
	if err != nil {
		if r, err = g.broken(err); err != nil {
			return r, err
		}
	} else {
		g.measured(func() { r = judge(c, g.Tests.MatchingOf(c), got) })
		if !r.Passed && got.value != nil {
			g.note(got.value.Exception)
		}
	}
	if r.Outcome == job.TimedOut {
		r.Message = fmt.Sprintf("%s (stopped after %s)", tooSlow, wall.Round(time.Millisecond))
	}
	r.WallMS = job.Milliseconds(min(took, time.Since(began)))
	r.Limits = &job.CaseLimits{Wall: job.Duration(wall.Round(time.Millisecond))}
	r.Expected = expectation(c)
	if !r.Passed {
		r.Message = call(g.Tests.Function, c) + ": " + r.Message
	}
	return r, nil
}

// newID returns a random id for a case, so that no process of an earlier case can guess it.
func newID() int64 { return 1 + rand.Int64N(1<<53-1) }

// oomDelay is how long the worker may take to notice an out-of-memory kill in a sandbox.
const oomDelay = 250 * time.Millisecond

// answer is the outcome of one case.
type answer struct {
	value *message // return or raise; nil: none
	end   *message // how the case's process ended
	late  bool     // value, or end without a value, came after the case's limit
}

// answer reads the frames of a case by its id. The guest ends the case, but first asks the worker
// whether the limit is over. The worker's clock decides: a frame after until is late.
func (g *grading) answer(id int64, until time.Duration) (a answer, err error) {
	frames := caseFrames{id: id, toll: &g.toll}
	for {
		f, err := g.receiveBy(g.box, until+grace, frames.next)
		switch {
		case err != nil:
			return a, err
		case f.Op == "late":
			if err := g.tell(g.box, until); err != nil {
				return a, err
			}
		case f.Op == "ended":
			a.end = f
			if a.value == nil {
				a.late = g.past(until)
			}
			return a, nil
		default:
			a.value, a.late = f, g.past(until)
		}
	}
}

// judge compares an answer with the expected value.
//
// It uses the following fields of the solution's messages. A solution can send any of them at any
// time with any content. Only value and exception can pass a case; the others never turn a failure
// into a pass.
//
//	op         selects the relevant fields
//	id         the case; a random number, so that no earlier case can answer for a later one
//	value      the answer; passes if it equals the expected value and is within the limit
//	exception  passes if the case expects it; otherwise a failure
//	problem    the message of a failure
//	timeout    a failure; without it the worker's own clock decides
//	signal     the message of a failure, if there is no answer
//	code       likewise
//
// left and wall are sent to the solution and never read back.
func judge(c *job.Case, by job.Matching, a answer) job.CaseResult {
	value, end := a.value, a.end
	switch {
	case a.late, end.Timeout:
		return job.CaseResult{Outcome: job.TimedOut, Message: tooSlow}
	case value == nil && end.Signal != 0:
		return job.CaseResult{Outcome: job.Signaled, Message: "the process was ended by " + unix.SignalName(unix.Signal(end.Signal)) + crashHint(end.Signal)}
	case value == nil:
		return job.CaseResult{Outcome: job.Failed, Message: fmt.Sprintf("the process ended itself with exit code %d instead of returning a value", end.Code)}
	case value.Op == "raise" && value.Exception == nil:
		return job.CaseResult{Outcome: job.Failed, Message: short(value.Problem, "the function returned nothing that can be read")}
	case value.Op == "raise":
		return judgeException(c, value.Exception)
	case runsOnly(c):
		return job.CaseResult{Passed: true, Outcome: job.Succeeded}
	}
	return judgeEncoded(c, by, value.Value)
}

// runsOnly reports whether a case only requires the call to return.
func runsOnly(c *job.Case) bool {
	return c.Expected == nil && c.ExpectedType == "" && c.ExpectedException == ""
}

func crashHint(signal int) string {
	if unix.Signal(signal) == unix.SIGSEGV {
		return ": a crash of the interpreter, often endless recursion"
	}
	return ""
}

func judgeException(c *job.Case, e *exception) job.CaseResult {
	got := e.String()
	if c.ExpectedException == "" {
		return job.CaseResult{Outcome: job.Exception, Got: got, Message: e.explain()}
	}
	for _, name := range append([]string{e.Type}, e.MRO...) {
		if name == c.ExpectedException {
			return job.CaseResult{Passed: true, Outcome: job.Succeeded, Got: got}
		}
	}
	return job.CaseResult{Outcome: job.Failed, Got: got, Message: "raised " + got + ", expected " + c.ExpectedException}
}

func judgeEncoded(c *job.Case, by job.Matching, raw json.RawMessage) job.CaseResult {
	got, err := value.Decode(raw)
	if err != nil {
		return job.CaseResult{Outcome: job.Failed, Message: "the value that the function returned cannot be read"}
	}
	return judgeValue(c, by, got)
}

func judgeValue(c *job.Case, by job.Matching, got value.Value) job.CaseResult {
	r := job.CaseResult{Outcome: job.Failed, Got: value.Repr(got)}
	if c.ExpectedException != "" {
		r.Message = "returned " + r.Got + ", expected it to raise " + c.ExpectedException
		return r
	}
	if c.ExpectedType != "" && !got.Is(c.ExpectedType) {
		r.Message = fmt.Sprintf("returned %s, which is %s, expected %s", r.Got, article(got.TypeName()), article(c.ExpectedType))
		return r
	}
	if c.Expected != nil {
		want, err := value.Expected(c)
		if err != nil {
			r.Message = "expected: " + err.Error()
			return r
		}
		if !value.Matches(got, want, by) {
			returned, expected, first := value.Compared(got, want)
			r.Message = "returned " + returned + ", expected " + expected + typeHint(got, want)
			if first != "" {
				r.Message += "; first difference: " + first
			}
			return r
		}
	}
	r.Passed, r.Outcome = true, job.Succeeded
	return r
}

// expectation describes a case's expectation for people.
func expectation(c *job.Case) string {
	switch {
	case c.ExpectedException != "":
		return "raises " + c.ExpectedException
	case runsOnly(c):
		return "no exception"
	case c.Expected == nil:
		return article(c.ExpectedType)
	}
	want, err := value.Expected(c)
	if err != nil {
		return err.Error()
	}
	return value.Repr(want)
}
