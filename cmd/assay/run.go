package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/program"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

type runCmd struct {
	File      string            `arg:"" help:"A .py file, - for Python on stdin, a script with a #! line, or a command of the image."`
	Args      []string          `arg:"" optional:"" help:"Arguments for the program, after --."`
	Language  string            `placeholder:"NAME" help:"Language of the file; see assay languages. Compiled languages are compiled first."`
	Policy    string            `placeholder:"FILE" help:"Policy: a JSON file, or the name of a stored policy."`
	Image     string            `placeholder:"IMAGE" help:"Image to run in (default: python)."`
	Isolation string            `placeholder:"LEVEL" enum:",cell,task,gvisor,vm" default:"" help:"Isolation level: cell, task, gvisor or vm (default: the policy's)."`
	Tests     string            `placeholder:"FILE" help:"Grade the file as a solution against the tests in this JSON file."`
	Stdin     string            `placeholder:"FILE" help:"Standard input of a command or a --language program; - passes this standard input."`
	Pool      string            `placeholder:"POOL" help:"Pool of workers to run in (default: any pool that is not exclusive)."`
	Require   map[string]string `placeholder:"KEY=VALUE" help:"Run only on workers with all of these labels."`
	Name      string            `help:"Name for the job."`
	Cache     bool              `help:"Reuse the result of an identical earlier job."`
}

// Run runs one program as if it were this process.
func (c *runCmd) Run(a *app) error {
	spec, err := c.spec(a)
	if err != nil {
		return err
	}
	api, err := a.client()
	if err != nil {
		return err
	}
	if err := policyFlags(a, api, &spec, c.Policy, c.Isolation); err != nil {
		return err
	}
	res, err := a.runJob(a.ctx, api, spec)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(res)
	}
	if err := a.printOutputs(api, res); err != nil {
		return err
	}
	a.explainEnd(res)
	if code := exitCodeOf(res); code != 0 {
		return exitCode(code)
	}
	return nil
}

// runJob submits a job and waits. An interrupt cancels the job.
func (a *app) runJob(ctx context.Context, api *client.Client, spec job.Spec) (*job.Result, error) {
	accepted, err := submitKnown(ctx, api, spec)
	if err != nil {
		return nil, err
	}
	if accepted.State == job.Queued { // it may wait for ever, so explain
		if j, err := api.Job(ctx, accepted.ID, 0); err == nil && j.Message != "" {
			fmt.Fprintf(a.stderr, "assay: job %s %s\n", j.ID, show.Plain(j.Message))
		}
	}
	res, err := api.Result(ctx, accepted.ID)
	if ctx.Err() != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if _, err := api.Cancel(ctx, accepted.ID); err != nil {
			return nil, fmt.Errorf("interrupted, and job %s may still run: %w", accepted.ID, err)
		}
	}
	return res, err
}

// submitGrace is how long an interrupted submit may continue to learn the job's id.
const submitGrace = 3 * time.Second

// submitKnown submits a job. An interrupt does not stop it at once, because a job with an unknown
// id could not be canceled.
func submitKnown(ctx context.Context, fleet *client.Client, spec job.Spec) (api.Accepted, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(submitGrace):
			cancel()
		case <-own.Done():
		}
	})
	defer stop()
	return fleet.Submit(own, spec)
}

// spec returns the job in the arguments.
func (c *runCmd) spec(a *app) (job.Spec, error) {
	s := job.Spec{Name: c.Name, Image: c.Image, Pool: c.Pool, Requires: c.Require, Cache: c.Cache}
	err := program.Named{File: c.File, Args: c.Args, Tests: c.Tests, Stdin: c.Stdin, Language: c.Language}.Read(a.stdin, &s)
	return s, err
}

// policyFlags applies --policy and --isolation to a job.
func policyFlags(a *app, api *client.Client, s *job.Spec, policy, isolation string) error {
	raw, err := program.ReadPolicy(policy)
	if err != nil {
		return err
	}
	if isolation != "" {
		if raw, err = program.WithIsolation(a.ctx, api.Policy, raw, isolation); err != nil {
			return err
		}
	}
	s.Policy = raw
	return nil
}

// explainEnd prints to stderr how a program ended, unless it simply exited.
func (a *app) explainEnd(r *job.Result) {
	if t := r.Tests; t != nil {
		a.printf("%d of %d tests passed, %s\n", t.Passed, t.Total, scoreOf(t))
		for _, f := range r.Feedback {
			a.printf("%s\n", show.Plain(f))
		}
	}
	switch r.Outcome {
	case job.Succeeded:
		return
	case job.Failed:
		if r.ExitCode != nil { // it printed the reason itself
			return
		}
	case job.Exception:
		if e := r.Exception; e != nil && !strings.Contains(r.Stderr.Text, e.Traceback) {
			fmt.Fprintln(a.stderr, strings.TrimRight(e.Traceback, "\n"))
		}
		return
	}
	text := strings.ReplaceAll(string(r.Outcome), "_", " ")
	if r.Message != "" {
		text += ": " + show.Plain(r.Message)
	}
	fmt.Fprintln(a.stderr, "assay:", text)
}

// scoreOf formats the score of a graded solution for people.
func scoreOf(t *job.TestsResult) string {
	if t.Score == nil {
		return fmt.Sprintf("no score: %d failed by themselves", t.Errors)
	}
	return fmt.Sprintf("score %.3g", *t.Score)
}

// exitCodeOf returns the exit code for the end of a program.
func exitCodeOf(r *job.Result) int {
	own := 0
	if r.ExitCode != nil {
		own = *r.ExitCode
	}
	switch r.Outcome {
	case job.Succeeded:
		return own
	case job.TimedOut:
		return exitTimedOut
	case job.OutOfMemory:
		return exitMemory
	case job.Signaled:
		if n := unix.SignalNum(r.Signal); n != 0 {
			return 128 + int(n)
		}
	}
	if r.Outcome == job.PolicyViolation || !r.Outcome.OfProgram() {
		return exitOurs
	}
	return max(own, 1)
}
