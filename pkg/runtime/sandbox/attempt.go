package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/assay-run/assay/guest/python"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/artifact"
	"github.com/assay-run/assay/pkg/runtime/cgroup"
	"github.com/assay-run/assay/pkg/runtime/egress"
	"github.com/assay-run/assay/pkg/runtime/mask"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// Attempt is one attempt in its slot.
type Attempt struct {
	*Place
	Box
	runtime.Attempt
	policy *policy.Policy
	Spent  cgroup.Usage // before the job
	// Network is the origin of the proxy's connections.
	Network *egress.Network
	// Trusted means that the operator set the policy's allow-list.
	Trusted bool
	// Stream is the stream of a Python program. Nil: none.
	Stream *Stream
	env    []string
	report *runtime.Report
	waited time.Duration // part of its wall time without a core
	toll   *toll.Meter   // the worker's work for it
	tolled time.Duration // the part already included in the report
}

// Run runs the attempt and returns its report. An error means that the sandbox failed, not the program.
func (a *Attempt) Run(ctx context.Context) (*runtime.Report, error) {
	a.policy = &a.Plan.Policy
	a.report, a.toll = &runtime.Report{}, new(toll.Meter)
	if a.Stream != nil {
		a.toll = a.Stream.toll
	}
	a.report.ImageDigest, a.report.Enforcement = a.Image.Digest, a.Plan.Enforcement
	a.report.Packages = a.Image.Packages
	if err := a.prepare(ctx); err != nil {
		return a.unprepared(err)
	}
	way, err := a.openEgress()
	if err != nil {
		return nil, err
	}
	a.env = Environ(a.Image, way.variables(), a.policy.Env.Set, a.Secrets)
	a.mask = mask.New(slices.Collect(maps.Values(a.Secrets)))
	if a.Gathered != nil {
		a.Gathered(a.gather)
	}
	err = a.runProgram(ctx)
	way.close(a.report)
	if err != nil {
		return nil, err
	}
	err = a.collect(ctx)
	a.settle()
	return a.report, err
}

// settle charges the work for the attempt since its last program ended.
func (a *Attempt) settle() {
	rest := a.toll.Spent() - a.tolled
	a.tolled += rest
	a.report.Usage.CPUMS += job.Milliseconds(rest)
	if a.CPU != nil {
		a.CPU.Spend(rest)
	}
}

// unprepared returns a report if the job is at fault for inputs that cannot be placed, otherwise
// the error.
func (a *Attempt) unprepared(err error) (*runtime.Report, error) {
	wrong := new(job.FieldError)
	switch {
	case errors.Is(err, errInputsFull):
		a.conclude(verdict{outcome: job.SetupError, message: fmt.Sprintf("policy.disk: %s of %s", err, a.policy.Disk)})
	case errors.As(err, &wrong):
		a.conclude(verdict{outcome: job.SetupError, message: wrong.Error()})
	default:
		return nil, err
	}
	return a.report, nil
}

// prepare sets the job's limits and writes its inputs.
func (a *Attempt) prepare(ctx context.Context) error {
	p := a.policy
	if err := a.Limit(p); err != nil {
		return err
	}
	if err := a.Scratch.show(CoresOf(p.CPU), p.Memory); err != nil {
		return err
	}
	return a.Scratch.writeInputs(ctx, a.Files)
}

// Limit sets the limits of a policy.
func (s *Place) Limit(p *policy.Policy) error {
	limits := cgroup.Limits{Memory: int64(p.Memory), CPU: p.CPU, Processes: int64(p.Processes)}
	if s.Foreign {
		limits.Memory, limits.Processes = limits.Memory+ForeignMemory, ForeignPids
	}
	if err := s.Group.Limit(limits); err != nil {
		return err
	}
	return s.Scratch.resize(p.Disk, p.Files)
}

func (a *Attempt) runProgram(ctx context.Context) error {
	switch {
	case a.Service != "":
		return a.runService(ctx)
	case a.Program.Python != nil:
		return a.runPython(ctx, snippetRequest(a.Program.Python, a.policy))
	case a.Program.Command != nil:
		if note := a.Image.Note; note != "" {
			a.report.Feedback = append(a.report.Feedback, note)
		}
		if len(a.Program.Command.Steps) == 0 {
			return a.runCommand(ctx, a.Program.Command)
		}
		return a.runSteps(ctx, a.Program.Command.Steps)
	}
	return job.Invalid("program", "isolation %s runs python and command programs only", a.policy.Isolation)
}

func (a *Attempt) runCommand(ctx context.Context, c *job.Command) error {
	e, err := a.execute(ctx, a.Box, &Program{
		Args: c.Argv, Env: a.env, Dir: a.dir(c.Dir), stdin: []byte(c.Stdin), in: a.Attempt.Stdin, out: a.Attempt.Stdout, output: a.Output,
		Limits: a.policy, toll: a.toll, budget: a.CPU, waits: a.Waits, metered: a.Metered, written: a.Written, begun: a.Begun, keep: keepAll,
	}, cgroup.Usage{})
	if err != nil {
		return err
	}
	a.account(e)
	a.report.Unbegun = e.Failure != nil
	a.conclude(judge(e.ending, a.policy))
	return nil
}

// runSteps runs steps until one fails. The result has the streams, the code and the outcome of the
// last step that ran, and the usage of all steps.
func (a *Attempt) runSteps(ctx context.Context, steps []job.Step) error {
	var used, before cgroup.Usage // with the worker's work for the steps, and without
	var written storedBytes
	for i, step := range steps {
		p, err := policy.ParseStep(step.Policy, *a.policy)
		if err != nil {
			return err
		}
		// The rest of the job's own limits applies to all steps together.
		p.Wall = min(p.Wall, a.policy.Wall-job.Duration(a.wall()-a.waited))
		p.CPUTime = min(p.CPUTime, a.policy.CPUTime-job.Duration(used.CPU))
		e, err := a.execute(ctx, a.Box, &Program{
			Args: step.Argv, Env: a.env, Dir: a.dir(step.Dir), stdin: []byte(step.Stdin), Limits: &p, budget: a.CPU, waits: a.Waits, metered: a.Metered,
			written: a.Written, keep: keepOfStep(len(steps), i, written), toll: a.toll,
		}, before)
		if err != nil {
			return err
		}
		written.add(e.kept)
		v := judge(e.ending, &p)
		a.report.Steps = append(a.report.Steps, stepResult(step.Name, e, v))
		used, before = total(used, e.usage), total(before, e.group)
		e.usage.CPU = used.CPU
		a.account(e)
		if v.outcome != job.Succeeded {
			v.message = fmt.Sprintf("step %d (%s): %s", i+1, step.Name, v.message)
			a.conclude(v)
			return nil
		}
		a.conclude(v)
	}
	return nil
}

func total(a, b cgroup.Usage) cgroup.Usage {
	return cgroup.Usage{CPU: a.CPU + b.CPU, OOMKills: a.OOMKills + b.OOMKills, ForksRefused: a.ForksRefused + b.ForksRefused}
}

func stepResult(name string, e *Exit, v verdict) job.StepResult {
	return job.StepResult{
		Name: name, Outcome: v.outcome, ExitCode: v.code, Signal: v.signal,
		Stdout: e.stdout, Stderr: e.stderr, Usage: usageOf(e.usage, e.wall, e.waited),
	}
}

func usageOf(u cgroup.Usage, wall, waited time.Duration) job.Usage {
	return job.Usage{
		WallMS: job.Milliseconds(wall), WaitedMS: job.Milliseconds(waited), CPUMS: job.Milliseconds(u.CPU),
		MemoryPeakBytes: u.MemoryPeak, ProcessesPeak: u.ProcessesPeak,
	}
}

// PreloadService is the service of an interpreter that preloads.
const PreloadService = "preload"

// runService runs the harness, which becomes the service.
func (a *Attempt) runService(ctx context.Context) error {
	if a.Service == PreloadService {
		return a.runPython(ctx, &pythonRequest{Preload: string(python.Preload)})
	}
	serve, ok := services[a.Service]
	if !ok {
		return job.Invalid("service", "%q does not exist", a.Service)
	}
	if a.Box.Serves(a.policy.Env.Set) {
		serve.Sources = nil
	}
	return a.runPython(ctx, &pythonRequest{Serve: &serve})
}

var services = python.Services()

// runPython runs the harness with a request.
func (a *Attempt) runPython(ctx context.Context, r *pythonRequest) error {
	uid := a.Scratch.UID + ProgramUID
	var stdin []byte
	var dir string
	r.Script, dir, stdin = a.scriptOf()
	request, err := r.file(uid)
	if err != nil {
		return err
	}
	defer request.Close()
	result, err := newResultPipe(uid, a.toll)
	if err != nil {
		return err
	}
	defer result.close()
	files := []*os.File{request, result.theirs}
	if a.Stream != nil {
		files = append(files, a.Stream.theirs)
		if a.Link != nil {
			files = append(files, a.Link)
		}
	}
	e, err := a.execute(ctx, a.Box, &Program{
		Args: []string{"python3", "-B", harness}, Env: a.env, Dir: a.dir(dir), stdin: stdin, output: a.Output, Limits: a.policy,
		files: files, Python: true, Asked: a.policy.Env.Set, stream: a.Stream, Forks: a.Forks, cpuGroup: a.CPUGroup, budget: a.CPU, waits: a.Waits, metered: a.Metered,
		written: a.Written, keep: keepAll, toll: a.toll,
	}, a.Spent)
	if err != nil {
		return err
	}
	_ = result.theirs.Close()
	var violation string
	if r := result.read(); r != nil && a.Script == nil {
		violation = r.Violation
		a.report.Value, a.report.Variables, a.report.Display = r.Value, r.Variables, r.Display
		a.report.Output = inOrder(r.Order, e.stdout, e.stderr)
		if e.stop == "" && e.oomKills == 0 {
			a.report.Exception, e.exception = r.Exception, r.Exception != nil
		}
	}
	a.account(e)
	a.report.Unbegun = e.Failure != nil
	v := judge(e.ending, a.policy)
	switch {
	case e.Failure != nil && *v.code == 127:
		v.message = "the image has no python3"
	case v.outcome == job.Failed && violation != "":
		v.outcome, v.message = job.PolicyViolation, "policy.imports: "+clipText(violation)
	}
	a.conclude(v)
	return nil
}

// dir returns a program's working directory: the job's, otherwise the image's for a command or a
// script.
func (a *Attempt) dir(asked string) string {
	switch {
	case asked != "":
		return asked
	case a.Service == "" && (a.Program.Command != nil || a.Script != nil) && a.Image.Dir != "":
		return a.Image.Dir
	}
	return a.Scratch.home()
}

func (a *Attempt) wall() time.Duration {
	return time.Duration(a.report.Usage.WallMS * float64(time.Millisecond))
}

// account adds a program's results and usage.
func (a *Attempt) account(e *Exit) {
	r := a.report
	if r.StartedAt.IsZero() {
		r.StartedAt = e.started
	}
	r.Stdout, r.Stderr = e.stdout, e.stderr
	a.waited, a.tolled = a.waited+e.waited, e.tolled
	r.Usage = usageOf(e.usage, a.wall()+e.wall, a.waited)
	r.Timings.RunMS = r.Usage.WallMS
}

func (a *Attempt) conclude(v verdict) {
	r := a.report
	r.Outcome, r.State, r.Message, r.ExitCode, r.Signal = v.outcome, v.outcome.State(), v.message, v.code, v.signal
	if r.StartedAt.IsZero() {
		r.StartedAt = time.Now()
	}
}

// collect passes on the artifacts after all processes have ended. It skips canceled jobs.
func (a *Attempt) collect(ctx context.Context) error {
	if a.Collect == nil || len(a.policy.Artifacts.Paths) == 0 || a.report.Outcome == job.OutcomeCanceled {
		return nil
	}
	begin := time.Now()
	var refused []string
	var err error
	a.toll.Measure(func() { refused, err = a.gather(ctx, a.Collect) })
	if err != nil {
		return err
	}
	a.report.Feedback = append(a.report.Feedback, refused...)
	a.report.Timings.CollectMS = sinceMS(begin)
	return nil
}

// gather is a runtime.Gather.
func (a *Attempt) gather(ctx context.Context, take runtime.Collector) ([]string, error) {
	want := a.policy.Artifacts
	var roots []artifact.Root
	for _, w := range a.Scratch.Dirs {
		if !w.ReadOnly { // it has no output there
			roots = append(roots, artifact.Root{Path: w.Path, Dir: w.Dir})
		}
	}
	limits := artifact.Limits{Paths: want.Paths, MaxBytes: int64(want.MaxBytes), MaxFiles: want.MaxFiles, Time: want.Time()}
	refused, err := artifact.Collect(ctx, roots, limits, take)
	if err != nil {
		return nil, fmt.Errorf("collect artifacts: %w", err)
	}
	for i := range refused {
		refused[i] = "artifact " + refused[i]
	}
	return refused, nil
}
