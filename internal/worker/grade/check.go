package grade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

type checkFrame struct {
	Op       string  `json:"op"`
	Check    string  `json:"check"`
	Setup    string  `json:"setup,omitempty"`
	Function string  `json:"function"`
	Class    bool    `json:"class,omitempty"` // function names a class
	Wall     float64 `json:"wall"`            // time limit of the solution for all tests, in seconds
	Link     int     `json:"link"`            // the descriptor for calls of the solution

	Functions []string `json:"functions,omitempty"` // further functions of the solution

	Code    string          `json:"code,omitempty"`    // the solution, if it shares the check's process
	Imports *policy.Imports `json:"imports,omitempty"` // rules for Code
}

// relay is one run of check code: the sandbox of the check and the sandbox of the solution. The
// check calls the solution directly over a link, which wakes only two processes per call instead of
// three. If the link breaks, the check reports it, and the worker relays its later calls to the
// solution's next process. The link breaks when the solution ends, times out or violates the
// protocol.
type relay struct {
	*grading
	check    *sandbox
	until    time.Duration   // the end of the current test's time
	limit    time.Duration   // time limit of its calls of the solution; 0 before the first test
	died     *job.CaseResult // the solution's process ended during this test
	side     side            // of check
	rest     int             // tests that have not started
	restarts int
	verdicts []job.CaseResult
}

// maxRestarts limits how often a solution may crash its sandbox.
const maxRestarts = 20

// runCheck runs check code against the solution. It skips the check if the solution cannot be
// loaded.
func (g *grading) runCheck(ctx context.Context) error {
	if r, skip := g.skipped("check"); skip {
		g.add(r, nil)
		return nil
	}
	if g.box != nil { // it was for values only
		if err := g.leave(); err != nil {
			return err
		}
	}
	r := &relay{grading: g, side: checkSide}
	if g.Tests.Process == job.Shared {
		r.side = sharedSide
	}
	if g.unloaded == nil {
		if err := r.run(ctx); err != nil {
			return err
		}
	}
	if g.unloaded != nil {
		r.verdicts = []job.CaseResult{*g.unloaded}
		r.verdicts[0].Name = "check"
	}
	if t := g.Tests; len(t.Cases) == 0 && len(t.Stdio) == 0 && allSkipped(r.verdicts) {
		fault := job.CheckError
		if t.Process == job.Shared { // the solution may have skipped them
			fault = job.Failed
		}
		r.verdicts = append(r.verdicts, job.CaseResult{Name: "check", Outcome: fault, Message: "every test of the check was skipped"})
	}
	for _, c := range r.verdicts {
		g.add(c, nil)
	}
	return nil
}

// allSkipped reports whether there are tests and all of them were skipped.
func allSkipped(verdicts []job.CaseResult) bool {
	for _, c := range verdicts {
		if !c.Skipped {
			return false
		}
	}
	return len(verdicts) > 0
}

func (r *relay) run(ctx context.Context) (err error) {
	first := checkFrame{Op: "check", Check: r.Tests.Check, Setup: r.Tests.Setup, Function: r.Tests.Function}
	if r.side == sharedSide {
		err = r.openShared(ctx, &first)
	} else {
		err = r.openBoth(ctx, &first)
	}
	defer func() {
		if r.check != nil {
			_, e := r.end(r.check, r.side)
			err = errors.Join(err, e)
		}
	}()
	if err != nil || r.unloaded != nil {
		return err
	}
	first.Wall = r.left().Seconds()
	if err := r.check.send(first); err != nil {
		return err
	}
	r.until = r.now() + r.left()
	for {
		f, err := r.receive(r.check, r.now()+r.left()+grace)
		if err != nil {
			return r.checkBroke(err)
		}
		switch f.Op {
		case "begin":
			r.rest = f.Code
			r.limit = r.share(0, f.Code == 0)
			r.until = r.now() + r.limit
		case "late":
			if err := r.tell(r.check, r.until); err != nil {
				return err
			}
		case "verdict":
			r.verdict(&f.verdict, f.Stage, f.Exception)
			if last := &r.verdicts[len(r.verdicts)-1]; r.Tests.StopOnFailure && !last.Passed && !last.Skipped {
				return nil
			}
		case "done":
			r.done(f.Calls, f.Asked)
			return nil
		case "unloaded":
			r.unloadedShared(f)
			return nil
		case "lost":
			if err := r.lost(f.Problem); err != nil {
				return err
			}
		case "call", "get", "set", "next", "is", "special", "send", "close", "spawn", "drive", "cancel", "return", "raise":
			if err := r.ask(ctx, f); err != nil {
				return err
			}
		default:
			return r.checkBroke(frame.ErrProtocol)
		}
		if len(r.verdicts) > job.MaxCases {
			return r.checkBroke(frame.ErrProtocol)
		}
	}
}

// openBoth opens the sandboxes of the check and the solution with a link between them.
func (r *relay) openBoth(ctx context.Context, first *checkFrame) error {
	toSolution, toCheck, err := newLink()
	if err != nil {
		return err
	}
	defer toCheck.Close() // if the solution's sandbox is not opened
	if r.check, err = r.open(ctx, checkSide, r.left()+verdictGrace, toSolution); err != nil {
		return err
	}
	first.Class, first.Functions, first.Link = r.Tests.OfClass(), r.Tests.Functions, guest.LinkFD
	return r.enter(ctx, true, toCheck)
}

// verdictGrace is the extra time of a check after the job's time, to report that the solution did
// not respond.
const verdictGrace = 250 * time.Millisecond

// newLink returns both ends of a stream between two sandboxes.
func newLink() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("link the check to the solution: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "link"), os.NewFile(uintptr(fds[1]), "link"), nil
}

// lost ends the solution's process after the check's link to it broke.
func (r *relay) lost(why string) error {
	if r.box != nil {
		cause := map[string]error{"late": os.ErrDeadlineExceeded, "protocol": frame.ErrProtocol}[why]
		if cause == nil {
			cause = net.ErrClosed
		}
		c, err := r.broken(cause)
		if err != nil {
			return err
		}
		r.died = &c
	}
	return r.check.send(gone)
}

// ask relays a frame of the check to the solution and the response back.
func (r *relay) ask(ctx context.Context, f *message) error {
	if r.box == nil && r.died == nil { // it died in an earlier test
		if r.restarts++; r.restarts > maxRestarts {
			r.died = &job.CaseResult{Outcome: job.Failed, Message: "the solution ended its process too often"}
		} else if err := r.enter(ctx, true, nil); err != nil {
			return err
		} else if r.unloaded != nil {
			r.died, r.unloaded = r.unloaded, nil
		}
	}
	if r.died != nil {
		return r.check.send(gone)
	}
	r.box.relay(f.raw)
	answer, err := r.receive(r.box, r.until)
	if err == nil && answer.Op != "return" && answer.Op != "raise" && answer.Op != "call" {
		err = frame.ErrProtocol
	}
	if err != nil {
		c, err := r.broken(err)
		if err != nil {
			return err
		}
		r.died = &c
		return r.check.send(gone)
	}
	r.check.relay(answer.raw)
	return nil
}

// gone is the response to the check when the solution is gone. The test fails regardless of the
// check's reaction.
var gone = map[string]any{"op": "raise", "exception": map[string]any{
	"type": "SolutionEnded", "module": "", "mro": []string{}, "message": "the solution's process is gone", "args": []any{},
}}

// verdict records the check's report of one test, and the exception if the solution raised it.
func (r *relay) verdict(v *verdict, stage string, e *exception) {
	c := job.CaseResult{Name: short(v.Name, "check"), Passed: v.Passed, Outcome: job.Succeeded, WallMS: v.WallMS, SelfReported: v.SelfReported}
	if r.limit > 0 {
		c.Limits = &job.CaseLimits{Wall: job.Duration(r.limit.Round(time.Millisecond))}
	}
	if r.died != nil {
		c.Passed, c.Outcome, c.Message = false, r.died.Outcome, r.died.Message+in(v)
		r.died = nil
		r.verdicts = append(r.verdicts, c)
		return
	}
	if v.Skipped != "" {
		c.Passed, c.Skipped, c.Outcome, c.Message = false, true, job.OutcomeCanceled, short("skipped: "+v.Skipped, "")
		r.verdicts = append(r.verdicts, c)
		return
	}
	if !v.Passed {
		c.Outcome, c.Got, c.Expected = job.Failed, short(v.Got, ""), short(v.Expected, "")
		switch {
		case v.Own:
			c.Outcome = job.CheckError
		case v.BySolution && v.Refused == "":
			c.Outcome = job.Exception
			r.note(e)
		}
		c.Message = checkMessage(cmp.Or(v.Function, r.Tests.Function), v, stage)
	}
	r.verdicts = append(r.verdicts, c)
}

func in(v *verdict) string {
	if v.Call == "" {
		return ""
	}
	return " in candidate" + v.Call
}

// checkMessage returns the feedback for a failed test.
func checkMessage(function string, v *verdict, stage string) string {
	e := exception{Type: v.Type, Message: v.Message}
	switch {
	case stage == "setup":
		return "setup of the tests raised " + e.String()
	case v.Own && (v.Type == "NeedsOneProcess" || v.Type == "CannotPass"):
		return v.Message
	case v.Refused != "":
		return function + v.Call + " " + oneLine(v.Refused)
	case v.BySolution:
		e.Line, e.Text = 0, ""
		return function + v.Call + " " + e.explain()
	case v.Type == "AssertionError":
		return assertMessage(function, v)
	}
	s := "the check raised " + e.String()
	if v.Text != "" {
		s += fmt.Sprintf(" at its line %d: %s", v.Line, v.Text)
	}
	if v.Type == "NameError" {
		s += " (define names that a check needs in setup)"
	}
	return s
}

func assertMessage(function string, v *verdict) string {
	var s string
	if v.Got != "" {
		s = function + v.Call + " returned " + v.Got
		if v.Expected != "" {
			s += ", expected " + v.Expected
		}
	}
	if v.Message != "" {
		s = join(s, v.Message)
	}
	if v.Text != "" && (v.Expected == "" || v.Got == "") {
		s = join(s, "failed: "+v.Text)
	}
	return short(s, "an assertion failed")
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// done handles the end of the check. A check that never called the solution has tested nothing. If
// it did not use the solution in any way, the check is at fault.
func (r *relay) done(calls int, asked bool) {
	fault := job.CheckError
	if asked {
		fault = job.Failed
	}
	if len(r.verdicts) == 0 {
		r.verdicts = append(r.verdicts, job.CaseResult{Name: "check", Outcome: fault, Message: "the check came to no verdict"})
	}
	if calls > 0 {
		return
	}
	for i := range r.verdicts {
		if v := &r.verdicts[i]; v.Passed {
			v.Passed, v.Outcome = false, fault
			v.Message = "the check never called the solution: it should call candidate, or " + r.Tests.Function
		}
	}
}

// checkBroke handles an abnormal end of the check.
func (r *relay) checkBroke(cause error) error {
	box := r.check
	r.check = nil
	rep, err := r.end(box, r.side)
	if err != nil {
		return err
	}
	if err := unstarted(rep); err != nil {
		return err
	}
	c := job.CaseResult{Name: "check", Outcome: job.TimedOut, Message: "the check did not come to its end: " + tooSlow}
	switch {
	case late(cause):
	case errors.Is(cause, frame.ErrProtocol):
		c.Outcome, c.Message = job.Failed, "the check wrote to a descriptor that is not its own"
	default:
		c.Outcome, c.Message = endMessage(rep)
		c.Message = "the check did not come to its end: " + c.Message
	}
	r.verdicts = append(r.verdicts, c)
	r.skipRest()
	return nil
}
