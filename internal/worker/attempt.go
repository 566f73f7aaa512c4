package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/internal/pause"
	"github.com/assay-run/assay/internal/telemetry"
	"github.com/assay-run/assay/internal/worker/capacity"
	"github.com/assay-run/assay/internal/worker/compile"
	"github.com/assay-run/assay/internal/worker/grade"
	"github.com/assay-run/assay/internal/worker/transfer"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/mask"
	"github.com/assay-run/assay/pkg/store"
)

// attempt is one try at a job.
type attempt struct {
	*Worker
	lease   *lease
	claimed store.Claimed
	told    control.Secrets

	spec         job.Spec
	plan         *policy.Plan
	kept         *transfer.Artifacts // nil: the policy allows none
	sandboxGroup string              // see runtime.Key; "" at first
	timings      job.Timings
	outputs      transfer.Outputs // stored beside the result
	code         *compile.Code    // the program or solution, if it is in a language of the catalogue
	checker      *compile.Code    // the tests' checker, if it is in a language of the catalogue
}

// owner returns the owner of the attempt's objects.
func (a *attempt) owner() transfer.Owner { return a.lease.owner(a.claimed.Tenant) }

// stored reports whether objects may exist under the lease.
func (a *attempt) stored() bool { return a.kept != nil || a.outputs.Tried }

// attempt runs one claimed job, reports its end and frees its slot.
func (w *Worker) attempt(l *lease, c store.Claimed, told control.Secrets) {
	defer w.capacity.Free(1)
	w.underway.Add(1)
	defer w.underway.Add(-1)
	a := &attempt{Worker: w, lease: l, claimed: c, told: told}
	a.timings.QueuedMS = c.QueuedMS
	ctx, end := a.trace(l.ctx)
	res, err := a.runRecovered(ctx)
	if _, alone := l.msg.(undelivered); alone {
		w.Awake.Stay()
	}
	w.leases.enter(l, reporting)
	end(a.report(ctx, res, err))
}

// runRecovered turns a panic into an infrastructure failure: one bad job must not end the other jobs of
// this worker.
func (a *attempt) runRecovered(ctx context.Context) (res *job.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.ErrorContext(ctx, "attempt panicked", "job", a.lease.Job, "panic", p, "stack", string(debug.Stack()))
			res, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	res, err = a.run(ctx)
	return res, asVerdict(err)
}

// run runs the job's program and returns its result. The error is a *verdict if the job is at
// fault, otherwise an infrastructure failure.
func (a *attempt) run(ctx context.Context) (*job.Result, error) {
	if err := a.read(); err != nil {
		return nil, err
	}
	began := time.Now()
	files, release, err := a.fetch(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	a.timings.FetchMS = millisecondsSince(began)

	defer a.release()
	if err := a.compileAll(ctx); err != nil {
		return nil, err
	}
	if refused := a.code.Uncompiled(); refused != nil {
		return refused, nil
	}
	room, err := a.capacity.Enter(ctx, a.need())
	if err != nil {
		return nil, err
	}
	defer room.Leave()
	a.leases.enter(a.lease, running)
	return runOrBlame(ctx, a, func() (*job.Result, error) { return a.runOnce(ctx, files) })
}

// runOnce runs the job in a slot.
func (a *attempt) runOnce(ctx context.Context, files []runtime.File) (*job.Result, error) {
	began := time.Now()
	kind, python := a.first()
	slot, err := a.acquire(ctx, kind, python)
	if err != nil {
		return nil, err
	}
	defer slot.Close()
	a.timings.SlotMS = millisecondsSince(began)
	a.metrics.waited(ctx, a.timings.SlotMS)
	return a.runIn(ctx, slot, files)
}

// read decodes and checks the claim.
func (a *attempt) read() (err error) {
	if err := json.Unmarshal(a.claimed.Spec, &a.spec); err != nil {
		return refuse("this worker (version %s) cannot read the job: %v", a.cfg.Version, err)
	}
	kind := a.spec.Program.Kind()
	switch kind {
	case "python", "command", "tests", "code":
	case "":
		return refuse("program: this worker (version %s) supports none of its kinds", a.cfg.Version)
	default:
		return refuse("program.%s: not supported by this version of the worker (%s)", kind, a.cfg.Version)
	}
	if a.code, err = compile.Of(a.spec.Program); err != nil {
		return refuse("%v", err)
	}
	if a.checker, err = compile.OfChecker(a.spec.Program.Tests); err != nil {
		return refuse("%v", err)
	}
	if a.plan, err = a.planFor(a.spec.Policy, policy.UseOfProgram(a.spec.Program)); err != nil {
		return err
	}
	if n := a.need(); a.capacity.TooLarge(n) {
		return refuse("policy.memory: %s is more than the %s of this worker", a.plan.Policy.Memory, a.cfg.Memory)
	}
	for _, variable := range slices.Sorted(maps.Keys(a.plan.Policy.Env.Secrets)) {
		if _, ok := a.told[variable]; !ok {
			return refuse("policy.env.secrets.%s: the secret %q was deleted", variable, a.plan.Policy.Env.Secrets[variable])
		}
	}
	return nil
}

// first returns the kind of the attempt's first slot, and the Python code that will run there, if
// it is known.
func (a *attempt) first() (kind, python string) {
	switch p := &a.spec.Program; {
	case p.Tests != nil:
		return grade.First(p.Tests, a.code.Solution(a.spec.Image), &a.plan.Policy)
	case p.Python != nil:
		return p.Kind(), p.Python.Code
	}
	if source, ok := a.code.Script(&a.plan.Policy); ok {
		return "python", source
	}
	return "command", ""
}

// imagePause is how long a job whose image is unavailable stays here. Then it is handed back and
// retried, maybe on another worker.
const imagePause = 2 * time.Second

func (a *attempt) acquire(ctx context.Context, kind, python string) (runtime.Slot, error) {
	return a.slot(ctx, runtime.Key{
		Kind: kind, Packages: a.plan.Policy.Requirements(), Imports: runtime.ImportsOf(python, &a.plan.Policy),
	})
}

// imageFault returns the text of an error that refuses a job because of its image. The text begins with image, once.
// A text that names a field omits its context, which would name the image again.
func imageFault(err error) string {
	text := err.Error()
	if field := new(job.FieldError); errors.As(err, &field) && field.Field != "" {
		text = field.Error()
	} else if !strings.HasPrefix(text, "image") {
		text = "image: " + text
	}
	return job.ClipMessage(text)
}

// slot acquires a slot of the key's kind for the job.
func (a *attempt) slot(ctx context.Context, key runtime.Key) (runtime.Slot, error) {
	key.Tenant, key.Image, key.SandboxGroup = a.claimed.Tenant, a.spec.Image, a.sandboxGroup
	key.Isolation, key.CPU = a.plan.Policy.Isolation, a.plan.Policy.CPU
	waiting, end := telemetry.StartSpan(ctx, "slot")
	slot, err := a.Runtime.Acquire(waiting, key)
	end(err)
	failure := new(runtime.BuildError)
	switch {
	case errors.As(err, &failure):
		return nil, refuse("policy.packages: %s", job.ClipMessage(failure.Message))
	case errors.Is(err, job.ErrInvalid):
		return nil, refuse("%s", imageFault(err))
	case errors.Is(err, runtime.ErrImage):
		pause.For(ctx, imagePause) // the registry is at fault, not this worker; it needs time
		fallthrough
	case err != nil:
		return nil, &noSlot{err}
	}
	return slot, nil
}

// need returns the resources that the attempt takes. Checker and solution take turns, so they share
// the cores.
func (a *attempt) need() capacity.Need {
	n := capacity.NeedOf(a.plan.Policy)
	n.Memory = int64(placement.RunMemoryOf(a.spec.Program, &a.plan.Policy))
	return n
}

// execute runs the program in a slot. A solution may use more slots.
func (a *attempt) execute(ctx context.Context, slot runtime.Slot, in runtime.Attempt) (*runtime.Report, error) {
	if in.Program.Tests == nil {
		return slot.Run(ctx, in)
	}
	var mu sync.Mutex
	first := slot
	expected, _ := a.first()
	return grade.Run(ctx, grade.Config{
		Beside: a.caseReserver(),
		Busy:   func() bool { cpu, _, _ := a.pressure.Stalled(); return cpu > waitingCores },
		Tests:  in.Program.Tests, Attempt: in, Solution: a.code.Solution(a.spec.Image), Checker: a.checker.Checker(a.spec.Image),
		Acquire: func(ctx context.Context, kind, python string) (runtime.Slot, error) {
			mu.Lock()
			s := first
			if kind == expected {
				first = nil
			} else {
				s = nil
			}
			mu.Unlock()
			if s != nil {
				return s, nil
			}
			return a.acquire(ctx, kind, python)
		},
		Blob: a.blob,
	})
}

func (a *attempt) runIn(ctx context.Context, slot runtime.Slot, files []runtime.File) (*job.Result, error) {
	in := runtime.Attempt{
		Job: a.lease.Job, Lease: a.lease.Lease, Program: a.spec.Program, Files: files, Plan: a.plan,
		Deadline: a.leases.deadline(a.lease), Secrets: make(map[string]string, len(a.told)),
	}
	for variable, value := range a.told {
		in.Secrets[variable] = string(value)
	}
	if len(a.plan.Policy.Artifacts.Paths) > 0 {
		a.kept = a.transfer.Artifacts(a.owner(), a.plan.Policy.Artifacts)
		in.Collect = a.kept.Collect
	}
	a.code.Prepare(&in)
	defer a.tailed(&in)()
	hide := mask.New(slices.Collect(maps.Values(in.Secrets)))
	running, end := telemetry.StartSpan(ctx, "program")
	rep, err := a.execute(running, slot, in)
	end(err)
	if a.kept != nil {
		a.traceCollect(ctx)
	}
	if err != nil {
		return nil, &failedRun{err}
	}
	if !rep.Outcome.Valid() {
		return nil, fmt.Errorf("run: the runtime reported the outcome %q", rep.Outcome)
	}
	if err := a.code.Complete(a.spec.Image, rep); err != nil {
		return nil, refuse("%v", err)
	}
	hide.Value(&rep.Result)
	if a.kept != nil {
		left := a.kept.Stored()
		rep.Artifacts, a.timings.CollectMS = left.Artifacts, max(job.Milliseconds(left.Took), rep.Timings.CollectMS)
	}
	if err := a.storeOutputs(ctx, &rep.Result); err != nil {
		return nil, err
	}
	a.timings.RunMS = rep.Usage.WallMS
	if a.timings.RunMS == 0 && !rep.StartedAt.IsZero() {
		a.timings.RunMS = max(millisecondsSince(rep.StartedAt)-a.timings.CollectMS, 0)
	}
	return &rep.Result, nil
}

// report sends the end of the attempt and returns its outcome for the trace. The outcome is empty
// if there is none.
func (a *attempt) report(ctx context.Context, res *job.Result, err error) job.Outcome {
	var v *verdict
	cause := context.Cause(a.lease.ctx)
	switch {
	case errors.Is(cause, errLost), errors.Is(cause, errFenced):
		a.abandon(ctx, cause)
		return ""
	case err == nil:
	case errors.As(err, &v):
		res = &job.Result{Outcome: v.outcome, Message: v.message}
	case errors.Is(cause, runtime.ErrCanceled):
		res = &job.Result{Outcome: job.OutcomeCanceled}
	case errors.Is(cause, errDrained):
		a.releaseLease(ctx, job.ReasonDrained, cause)
		return ""
	case errors.Is(err, capacity.ErrQueueFull), errors.Is(err, runtime.ErrStarved):
		a.releaseLease(ctx, job.ReasonPreempted, err)
		return ""
	default:
		a.releaseLease(ctx, job.ReasonInfra, err)
		return ""
	}
	if v == nil {
		a.breaker.OK(a.claimed.Tenant)
	}
	return a.conclude(ctx, res)
}

// conclude completes the result and sends it.
func (a *attempt) conclude(ctx context.Context, res *job.Result) job.Outcome {
	res.ID, res.BatchID = a.lease.Job, a.claimed.BatchID
	res.Name, res.Labels = a.spec.Name, a.spec.Labels
	res.State = res.Outcome.State()
	res.Timings = a.timings
	res.TraceID = traceID(a.claimed.TraceParent)
	if res.Enforcement == nil && a.plan != nil {
		res.Enforcement = a.plan.Enforcement
	}
	if a.plan != nil {
		res.Enforcement = append(slices.Clip(res.Enforcement), a.limits()...)
	}
	a.reserve(res)
	stored := objectsOf(res)
	raw, err := bounded(res)
	a.discardDropped(ctx, stored, res)
	if err != nil {
		a.releaseLease(ctx, job.ReasonInfra, fmt.Errorf("encode result: %w", err))
		return ""
	}
	a.say(finishing{
		since: time.Now(), lease: a.lease, tenant: a.claimed.Tenant, stored: a.stored(),
		finish: store.Finish{LeaseRef: a.lease.LeaseRef, BatchID: a.claimed.BatchID, Outcome: res.Outcome, TraceParent: a.claimed.TraceParent, Tenant: a.finishTenant(), Result: raw},
	})
	a.metrics.ran(ctx, res.Outcome, a.isolation(), a.timings.RunMS)
	a.tally.end(res.Outcome)
	a.metrics.countAttempt(ctx, a.claimed.Tenant, res.Outcome, a.timings.RunMS)
	return res.Outcome
}

// releaseLease hands the job back to the dispatchers. The user is not charged.
func (a *attempt) releaseLease(ctx context.Context, reason job.Reason, err error) {
	slog.WarnContext(ctx, "attempt handed back", "job", a.lease.Job, "lease", a.lease.Lease, "reason", reason, "error", err)
	if reason == job.ReasonInfra && !errors.Is(err, runtime.ErrImage) {
		if d := a.breaker.Fail(a.claimed.Tenant, a.lease.Job, a.sandboxOf(err)); d > 0 {
			slog.ErrorContext(ctx, "circuit breaker open; not taking jobs", "pause", d)
		}
	}
	a.metrics.handedBack(ctx, reason)
	a.tally.released(reason)
	a.releases.add(releasing{
		lease: a.lease, tenant: a.claimed.Tenant, stored: a.stored(),
		release: store.Release{LeaseRef: a.lease.LeaseRef, Reason: reason, Message: job.ClipMessage(err.Error())},
	})
}

// abandon drops an attempt whose lease was lost. No result was sent under the lease, so no record
// refers to its objects. The lease is held until its objects are deleted. The job may come back
// under the same lease after a mere disconnect, and its new artifacts must not be deleted then.
func (a *attempt) abandon(ctx context.Context, cause error) {
	slog.WarnContext(ctx, "attempt abandoned", "job", a.lease.Job, "lease", a.lease.Lease, "cause", cause)
	if a.stored() {
		a.transfer.Discard(ctx, a.owner())
	}
	if errors.Is(cause, errLost) { // after a mere disconnect, the queue redelivers and the claim decides
		_ = a.lease.msg.Ack()
	}
	a.leases.remove(a.lease)
}

func (a *attempt) isolation() policy.Isolation {
	if a.plan == nil {
		return ""
	}
	return a.plan.Policy.Isolation
}

func millisecondsSince(t time.Time) float64 { return job.Milliseconds(time.Since(t)) }
