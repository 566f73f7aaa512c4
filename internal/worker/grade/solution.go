package grade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/internal/worker/grade/value"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// setupFrame makes a sandbox run the setup of the tests before it gets the solution.
type setupFrame struct {
	Op    string `json:"op"`
	Setup string `json:"setup"`
}

// loadFrame sends the solution to a sandbox.
type loadFrame struct {
	Op          string `json:"op"`
	Code        string `json:"code"`
	Setup       string `json:"setup,omitempty"`
	Function    string `json:"function,omitempty"`
	ByReference bool   `json:"by_reference,omitempty"` // return other values than data by reference, for use by the check
	Class       bool   `json:"class,omitempty"`        // a class is under test: its instances may be used, too
	Link        int    `json:"link,omitempty"`         // the descriptor for the check's calls

	Functions []string        `json:"functions,omitempty"` // further functions that the check may call
	Imports   *policy.Imports `json:"imports,omitempty"`   // rules for the code, not for the setup
}

// enter opens a sandbox with the solution loaded, unless there is one. If the solution cannot be
// loaded, it sets unloaded. link, if any, connects to the check.
func (g *grading) enter(ctx context.Context, byReference bool, link *os.File) error {
	if g.box != nil || g.unloaded != nil {
		return nil
	}
	box, err := g.open(ctx, solutionSide, g.left(), link)
	if err != nil {
		return err
	}
	g.box = box
	t := g.Tests
	load := loadFrame{Op: "load", Code: t.Code, Setup: t.Setup, Function: t.Function, ByReference: byReference, Class: t.OfClass() || strings.Contains(t.Function, ".")}
	if link != nil {
		load.Link = guest.LinkFD
	}
	if byReference {
		load.Functions = t.Functions
	}
	if arrays := g.casesForPython(); !g.told && (t.Setup != "" || len(arrays) > 0) {
		if err := g.prepare(box, arrays); err != nil || g.unloaded != nil {
			return err
		}
		load.Setup = ""
	}
	g.told = true
	if rules := &g.Attempt.Plan.Policy.Imports; rules.Any() {
		load.Imports = rules
	}
	if err := box.send(load); err != nil {
		return err
	}
	f, err := g.receive(box, g.now()+g.left()+grace)
	if err == nil && f.Op == "loaded" {
		return nil
	}
	if err == nil && f.Op == "raise" && f.Stage == "imports" {
		g.unloaded = &job.CaseResult{Outcome: job.PolicyViolation, Message: short("policy.imports: "+f.Problem, "")}
		return g.leave()
	}
	if err == nil && (f.Op != "raise" || f.Exception == nil) {
		err = frame.ErrProtocol
	}
	if err == nil {
		g.unloaded = &job.CaseResult{Outcome: job.Exception, Message: unloadedMessage(f.Stage, f.Exception)}
		g.note(f.Exception)
		return g.leave()
	}
	rep, err := g.broken(err)
	if err != nil {
		return err
	}
	g.unloaded = &rep
	g.unloaded.Message = "the solution cannot be loaded: " + rep.Message
	return nil
}

// prepare runs the setup in the first sandbox of the solution, and decodes arguments there that
// only Python can decode. The sandbox receives the solution afterwards, so each failure is a
// CheckError. Later sandboxes receive setup and solution together, because the solution could cause
// a failure there.
func (g *grading) prepare(box *sandbox, cases []int) error {
	f, err := g.exchange(box, setupFrame{Op: "setup", Setup: g.Tests.Setup})
	what := "setup of the tests"
	for _, i := range cases {
		if err != nil || f.Op != "ready" {
			break
		}
		what = "the arguments of " + g.caseName(i)
		arguments := newCaseFrame(&g.Tests.Cases[i])
		arguments.Op = "decode"
		f, err = g.exchange(box, arguments)
	}
	switch {
	case err == nil && f.Op == "ready":
		return nil
	case err == nil && f.Op == "raise" && f.Exception != nil && f.Stage == "arguments":
		g.unloaded = &job.CaseResult{Outcome: job.CheckError, Message: what + " cannot be decoded: " + f.Exception.String()}
		return g.leave()
	case err == nil && f.Op == "raise" && f.Exception != nil:
		g.unloaded = &job.CaseResult{Outcome: job.CheckError, Message: unloadedMessage("setup", f.Exception)}
		return g.leave()
	case err == nil:
		err = frame.ErrProtocol
	}
	rep, err := g.broken(err)
	if err != nil {
		return err
	}
	g.unloaded = &job.CaseResult{Outcome: job.CheckError, Message: what + " did not come to its end: " + rep.Message}
	return nil
}

// exchange sends a frame and returns the response.
func (g *grading) exchange(box *sandbox, f any) (*message, error) {
	if err := box.send(f); err != nil {
		return nil, err
	}
	return g.receive(box, g.now()+g.left()+grace)
}

// casesForPython returns the cases with arguments that only Python can decode, such as numpy
// arrays.
func (g *grading) casesForPython() (indexes []int) {
	for i := range g.Tests.Cases {
		if c := &g.Tests.Cases[i]; value.NeedsPython(c) && value.BadCase(c) == "" {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// grace is how long the worker waits beyond a limit for the guest's report that it ended the
// program. No verdict depends on it.
const grace = 250 * time.Millisecond

// leave ends the solution's sandbox.
func (g *grading) leave() error {
	box := g.box
	g.box = nil
	_, err := g.end(box, solutionSide)
	return err
}

// broken ends the solution's sandbox after receive failed. It returns the result of the case.
func (g *grading) broken(cause error) (job.CaseResult, error) {
	box := g.box
	g.box = nil
	rep, err := g.end(box, solutionSide)
	if err != nil {
		return job.CaseResult{}, err
	}
	if err := unstarted(rep); err != nil {
		return job.CaseResult{}, err
	}
	c := job.CaseResult{Outcome: rep.Outcome}
	switch {
	case late(cause):
		c.Outcome, c.Message = job.TimedOut, tooSlow
	case errors.Is(cause, frame.ErrProtocol):
		c.Outcome, c.Message = job.Failed, "the solution wrote to a descriptor that is not its own"
	default:
		c.Outcome, c.Message = endMessage(rep)
	}
	return c, nil
}

const tooSlow = "it took too long: look for an endless loop or a slow algorithm"

// endMessage describes an unexpected end of a sandbox.
func endMessage(rep *runtime.Report) (job.Outcome, string) {
	switch rep.Outcome {
	case job.TimedOut:
		return rep.Outcome, tooSlow
	case job.OutOfMemory:
		return rep.Outcome, "it " + trimIt(rep.Message) + ": look for endless growth"
	case job.Succeeded, job.Failed, job.Exception:
		code := 0
		if rep.ExitCode != nil {
			code = *rep.ExitCode
		}
		return job.Failed, fmt.Sprintf("the process ended itself with exit code %d instead of returning a value", code)
	case job.Signaled:
		return rep.Outcome, "the process was ended by " + rep.Signal
	}
	return rep.Outcome, rep.Message
}
