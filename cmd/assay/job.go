package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

type jobCmd struct {
	Get       jobGetCmd       `cmd:"" help:"Show a job."`
	List      jobListCmd      `cmd:"" help:"List jobs, newest first."`
	Logs      jobLogsCmd      `cmd:"" help:"Print the output of a job; with -f, follow it."`
	Artifacts jobArtifactsCmd `cmd:"" help:"List the artifacts of a job, or download them."`
	Cancel    jobCancelCmd    `cmd:"" help:"Cancel a job, or all jobs that match the flags."`
	Priority  jobPriorityCmd  `cmd:"" help:"Change the priority of waiting jobs."`
	Delete    jobDeleteCmd    `cmd:"" help:"Erase a finished job with its outputs and artifacts."`
}

type jobGetCmd struct {
	ID     string        `arg:"" help:"Id of the job."`
	Wait   time.Duration `help:"Wait at most this long for the job to finish."`
	Fields []string      `placeholder:"NAME" help:"Print only these fields, as JSON, such as id,state; --wait adds the state."`
}

// Run shows a job.
func (c *jobGetCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	if len(c.Fields) > 0 {
		raw, err := api.JobFields(a.ctx, job.ID(c.ID), c.Wait, c.Fields...)
		if err != nil {
			return err
		}
		return a.printJSON(raw)
	}
	j, err := api.Job(a.ctx, job.ID(c.ID), c.Wait)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(j)
	}
	a.printf("job %s", j.ID)
	if j.Spec.Name != "" {
		a.printf(" (%s)", j.Spec.Name)
	}
	a.printf(": %s", j.State)
	if j.Worker != "" {
		a.printf(" on %s", j.Worker)
	}
	if r := j.Result; r != nil {
		a.printf(", %s: %s", r.Outcome, show.Plain(show.Gist(r)))
	}
	if j.Message != "" {
		a.printf(", %s", show.Plain(j.Message))
	}
	a.printf("\n")
	return nil
}

type jobLogsCmd struct {
	ID     string `arg:"" help:"Id of the job."`
	Follow bool   `short:"f" help:"Follow the output until the job ends."`
}

// Run prints a job's stdout to stdout and its stderr to stderr.
func (c *jobLogsCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	if c.Follow {
		return c.follow(a, api)
	}
	j, err := api.Job(a.ctx, job.ID(c.ID), 0)
	if err != nil {
		return err
	}
	r := j.Result
	if r == nil {
		return fmt.Errorf("job %s is %s and has no recorded output", j.ID, j.State)
	}
	if a.JSON {
		return a.printJSON(map[string]job.Output{"stdout": r.Stdout, "stderr": r.Stderr})
	}
	if err := a.printOutputs(api, r); err != nil {
		return err
	}
	for i, s := range r.Steps {
		if err := a.printStreams(api, r.ID, i, s.Stdout, s.Stderr); err != nil {
			return err
		}
	}
	return nil
}

// follow prints a job's output while it runs.
func (c *jobLogsCmd) follow(a *app, api *client.Client) error {
	for e, err := range api.Logs(a.ctx, job.ID(c.ID)) {
		if err != nil {
			return err
		}
		if a.JSON {
			if err := a.printJSON(e); err != nil {
				return err
			}
			continue
		}
		switch e.Kind {
		case "stdout":
			_, err = a.stdout.Write(e.Bytes())
		case "stderr":
			_, err = a.stderr.Write(e.Bytes())
		}
		if e.Missed > 0 {
			fmt.Fprintf(a.stderr, "… %d bytes of %s are missing before this …\n", e.Missed, e.Kind)
		}
		if e.Kind == "restart" {
			fmt.Fprintln(a.stderr, "… another attempt begins …")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printOutputs prints the complete stdout and stderr of a program.
func (a *app) printOutputs(api *client.Client, r *job.Result) error {
	return a.printStreams(api, r.ID, -1, r.Stdout, r.Stderr)
}

// printStreams prints the streams of one step, or of the whole program for step -1.
func (a *app) printStreams(api *client.Client, id job.ID, step int, stdout, stderr job.Output) error {
	if err := a.printOutput(api, id, "stdout", step, stdout, a.stdout); err != nil {
		return err
	}
	return a.printOutput(api, id, "stderr", step, stderr, a.stderr)
}

// printOutput prints an output from the result, or from its separate object.
func (a *app) printOutput(api *client.Client, id job.ID, stream string, step int, o job.Output, to io.Writer) error {
	if o.Stored == nil {
		_, err := to.Write(o.Exact())
		return err
	}
	body, err := api.Output(a.ctx, id, stream, step)
	if err != nil {
		fmt.Fprint(to, o.Text)
		return fmt.Errorf("only the head and the tail of the output are available: read %s of job %s: %w", stream, id, err)
	}
	defer body.Close()
	if _, err := io.Copy(to, body); err != nil {
		return fmt.Errorf("read %s of job %s: %w", stream, id, err)
	}
	return nil
}

type jobCancelCmd struct {
	ID     string            `arg:"" optional:"" help:"Id of the job."`
	Label  map[string]string `placeholder:"KEY=VALUE" help:"Instead of a job: jobs with all of these labels, on the job or its batch."`
	Batch  string            `placeholder:"ID" help:"Instead of a job: jobs of this batch."`
	State  string            `enum:",queued,dispatched,running" default:"" placeholder:"STATE" help:"Instead of a job: jobs in this state, queued, dispatched or running."`
	DryRun bool              `help:"Count the jobs and change nothing."`
}

// Validate requires exactly one way of selecting jobs.
func (c *jobCancelCmd) Validate() error {
	many := len(c.Label) > 0 || c.Batch != "" || c.State != ""
	if (c.ID == "") != many || c.DryRun && !many {
		return errors.New("name a job, or its labels with --label KEY=VALUE, its --batch or its --state")
	}
	return nil
}

// Run cancels one job, or all selected jobs.
func (c *jobCancelCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	if c.ID == "" {
		return c.many(a, api)
	}
	return c.one(a, api)
}

func (c *jobCancelCmd) many(a *app, server *client.Client) error {
	got, err := server.CancelMany(a.ctx, api.CancelRequest{Labels: c.Label, Batch: job.ID(c.Batch), State: job.State(c.State), DryRun: c.DryRun})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(got)
	}
	if got.DryRun {
		a.printf("%d jobs that wait would be canceled, and %d that run stopped\n", got.Canceled, got.Stopping)
		return nil
	}
	a.printf("%d jobs canceled, %d being stopped\n", got.Canceled, got.Stopping)
	return nil
}

type jobPriorityCmd struct {
	Priority int               `arg:"" help:"New priority, -1000 to 1000; each point doubles the share within the tenant. Write -- before a negative one."`
	Label    map[string]string `placeholder:"KEY=VALUE" help:"Jobs with all of these labels, on the job or its batch."`
	Batch    string            `placeholder:"ID" help:"Jobs of this batch."`
	DryRun   bool              `help:"Count the jobs and change nothing."`
}

// Validate requires a selection.
func (c *jobPriorityCmd) Validate() error {
	if len(c.Label) == 0 && c.Batch == "" {
		return errors.New("name the jobs by their labels with --label KEY=VALUE, by their --batch or by both")
	}
	return nil
}

// Run changes the priority of jobs.
func (c *jobPriorityCmd) Run(a *app) error {
	server, err := a.client()
	if err != nil {
		return err
	}
	got, err := server.Prioritize(a.ctx, api.PriorityRequest{Labels: c.Label, Batch: job.ID(c.Batch), Priority: &c.Priority, DryRun: c.DryRun})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(got)
	}
	if got.DryRun {
		a.printf("%d jobs would get priority %d\n", got.Changed, c.Priority)
		return nil
	}
	a.printf("%d jobs have priority %d now\n", got.Changed, c.Priority)
	return nil
}

func (c *jobCancelCmd) one(a *app, api *client.Client) error {
	got, err := api.Cancel(a.ctx, job.ID(c.ID))
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(got)
	}
	switch got.State {
	case job.Running:
		a.printf("job %s is being stopped\n", got.ID)
	case job.Finished:
		a.printf("job %s had finished before\n", got.ID)
	default:
		a.printf("job %s is %s\n", got.ID, got.State)
	}
	return nil
}

type jobArtifactsCmd struct {
	ID  string `arg:"" help:"Id of the job."`
	Out string `placeholder:"DIR" help:"Download the artifacts into this directory."`
}

// Run lists or fetches artifacts.
func (c *jobArtifactsCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	found, err := api.Artifacts(a.ctx, job.ID(c.ID))
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := c.fetch(a, api, found); err != nil {
			return err
		}
	}
	if a.JSON {
		return a.printJSON(found)
	}
	for _, f := range found {
		where := f.Path
		if c.Out != "" {
			where = filepath.Join(c.Out, f.Path)
		}
		a.printf("%10d  %s  %s\n", f.Bytes, f.SHA256[:min(12, len(f.SHA256))], where)
	}
	return nil
}

// fetch writes artifacts below the directory. Jobs choose the paths, so os.Root confines them, even
// with existing links.
func (c *jobArtifactsCmd) fetch(a *app, api *client.Client, found []job.Artifact) error {
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(c.Out)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range found {
		if err := c.fetchOne(a, api, root, f); err != nil {
			return fmt.Errorf("artifact %q: %w", f.Path, err)
		}
	}
	return nil
}

func (c *jobArtifactsCmd) fetchOne(a *app, api *client.Client, root *os.Root, f job.Artifact) (err error) {
	name := strings.TrimPrefix(path.Clean("/"+f.Path), "/")
	if name == "" || !filepath.IsLocal(name) {
		return fmt.Errorf("is not a path of a file")
	}
	body, err := api.Artifact(a.ctx, job.ID(c.ID), f.Path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	_ = root.Remove(name) // replaces an existing link instead of writing through it
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), body)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != f.SHA256 {
		err = fmt.Errorf("arrived as sha256 %s, recorded as %s", got, f.SHA256)
	}
	if err != nil {
		_ = root.Remove(name) // an incomplete file looks complete
	}
	return err
}
