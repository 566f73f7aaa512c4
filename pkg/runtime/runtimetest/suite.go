// Package runtimetest is the specification of runtime.Runtime, as tests for every implementation.
//
// Lifecycle tests slots of any runtime, even one without any programs. Contract tests the ends of attempts,
// and requires a runtime that runs or simulates Python programs. programs*.go tests real walls.
package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// Config is the runtime under test.
type Config struct {
	// New creates a runtime; the suite closes it. It is called once per suite.
	New func(t *testing.T) runtime.Runtime

	// Image exists and has a python3, unless the runtime is simulated.
	Image string

	// Isolation is the isolation under test.
	Isolation policy.Isolation

	// Plan replaces the function Plan for a simulated runtime. Nil: the function Plan. Its edit is
	// never nil.
	Plan func(t *testing.T, host policy.Host, isolation policy.Isolation, edit func(*policy.Policy)) *policy.Plan

	// Part selects which of n expensive programs of Programs and Starts to run. Nil: all.
	Part func(t *testing.T, n int) []int

	// Slack is the allowed delay after a limit on a busy machine; default one second.
	Slack time.Duration
}

// KillTime is how long a runtime may take to kill an attempt, by the contract of Slot.Run.
const KillTime = time.Second

// suite is one runtime with the helpers of the cases.
type suite struct {
	Config
	rt runtime.Runtime
}

func newSuite(t *testing.T, cfg Config) *suite {
	t.Helper()
	if cfg.Slack == 0 {
		cfg.Slack = time.Second
	}
	if cfg.Isolation == "" {
		cfg.Isolation = policy.Task
	}
	s := &suite{Config: cfg, rt: cfg.New(t)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := s.rt.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// part returns the selected part of a list.
func part[T any](t *testing.T, cfg Config, all []T) (taken []T) {
	t.Helper()
	if cfg.Part == nil {
		return all
	}
	for _, i := range cfg.Part(t, len(all)) {
		taken = append(taken, all[i])
	}
	return taken
}

func (s *suite) key(kind string) runtime.Key {
	return runtime.Key{Tenant: "suite", Image: s.Image, Isolation: s.Isolation, Kind: kind}
}

func (s *suite) acquire(t *testing.T, kind string) runtime.Slot {
	t.Helper()
	slot, err := s.rt.Acquire(t.Context(), s.key(kind))
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	t.Cleanup(slot.Close)
	return slot
}

func (s *suite) attempt(t *testing.T, p job.Program, edit func(*policy.Policy)) runtime.Attempt {
	t.Helper()
	return runtime.Attempt{
		Job: job.NewID(), Lease: 1, Program: p, Deadline: time.Now().Add(time.Minute),
		Plan: s.plan(t, edit),
	}
}

func (s *suite) plan(t *testing.T, edit func(*policy.Policy)) *policy.Plan {
	t.Helper()
	if s.Plan == nil {
		return Plan(t, s.rt.Host(), s.Isolation, edit)
	}
	if edit == nil {
		edit = func(*policy.Policy) {}
	}
	return s.Plan(t, s.rt.Host(), s.Isolation, edit)
}

// python returns code for real interpreters, with a script for a fake.
func python(code, fake string) job.Program {
	return job.Program{Python: &job.Python{Code: code + "\n# fake: " + fake + "\n"}}
}

func sleeping(d time.Duration) job.Program {
	return python(fmt.Sprintf("import time; time.sleep(%g)", d.Seconds()), "sleep="+d.String())
}

func printing(text string) job.Program {
	return python(fmt.Sprintf("print(%q, end='')", text), fmt.Sprintf("output=%q", text))
}

// Lifecycle tests the slots of any runtime.
func Lifecycle(t *testing.T, cfg Config) {
	s := newSuite(t, cfg)
	t.Run("host", s.hostIsDescribed)
	t.Run("close is idempotent", s.closeIsIdempotent)
	t.Run("slot is for one attempt", s.slotIsForOneAttempt)
	t.Run("acquire heeds its context", s.acquireHeedsContext)
	t.Run("unknown image", s.unknownImage)
	t.Run("ended context", s.endedContext)
	t.Run("concurrency", s.concurrency)
	t.Run("closed runtime", s.closedRuntime) // last, because it closes the runtime
}

// Contract tests how attempts end.
func Contract(t *testing.T, cfg Config) {
	s := newSuite(t, cfg)
	t.Run("success", s.success)
	t.Run("start and wait", s.startAndWait)
	t.Run("exit code", s.exitCode)
	t.Run("wall clock", s.wallClock)
	t.Run("cancel", s.cancel)
	t.Run("kill", s.kill)
	t.Run("inputs", s.inputs)
	t.Run("artifacts", s.artifacts)
	t.Run("failing collector", s.failingCollector)
	t.Run("attempts do not mix", s.attemptsDoNotMix)
	t.Run("images are known", s.imagesAreKnown)
}

func (s *suite) hostIsDescribed(t *testing.T) {
	h := s.rt.Host()
	if h.Cores < 1 || h.Memory <= 0 || len(h.Isolations) == 0 {
		t.Errorf("Host = %+v, want cores, memory and isolations", h)
	}
}

func (s *suite) closeIsIdempotent(t *testing.T) {
	unused := s.acquire(t, "python")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(unused.Close)
	}
	wg.Wait()
	if _, err := unused.Run(t.Context(), s.attempt(t, printing("x"), nil)); err == nil {
		t.Error("a closed slot ran an attempt")
	}
}

func (s *suite) slotIsForOneAttempt(t *testing.T) {
	slot := s.acquire(t, "python")
	if _, err := slot.Run(t.Context(), s.attempt(t, printing("once"), nil)); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if _, err := slot.Run(t.Context(), s.attempt(t, printing("twice"), nil)); err == nil {
		t.Error("a slot ran a second attempt")
	}
	slot.Close()
	slot.Close()
}

func (s *suite) acquireHeedsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if slot, err := s.rt.Acquire(ctx, s.key("python")); err == nil {
		slot.Close()
		t.Error("Acquire succeeded under a canceled context")
	}
}

func (s *suite) unknownImage(t *testing.T) {
	key := s.key("python")
	key.Image = "assay.local/no-such-image:latest"
	slot, err := s.rt.Acquire(t.Context(), key)
	if err == nil {
		slot.Close()
	}
	if !errors.Is(err, job.ErrInvalid) {
		t.Errorf("Acquire = %v, want job.ErrInvalid", err)
	}
}

func (s *suite) endedContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(runtime.ErrCanceled)
	rep, err := s.acquire(t, "python").Run(ctx, s.attempt(t, printing("x"), nil))
	if err != nil || rep.Outcome != job.OutcomeCanceled {
		t.Errorf("canceled before Run: %v, %v, want outcome canceled", rep, err)
	}
}

func (s *suite) concurrency(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		a := s.attempt(t, printing("x"), nil)
		wg.Go(func() {
			slot, err := s.rt.Acquire(t.Context(), s.key("python"))
			if err != nil {
				t.Errorf("Acquire: %v", err)
				return
			}
			defer slot.Close()
			if rep, err := slot.Run(t.Context(), a); err != nil || rep.Outcome != job.Succeeded {
				t.Errorf("Run: %+v, %v", rep, err)
			}
		})
	}
	wg.Wait()
}

func (s *suite) closedRuntime(t *testing.T) {
	for range 2 {
		if err := s.rt.Close(t.Context()); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	if slot, err := s.rt.Acquire(t.Context(), s.key("python")); err == nil {
		slot.Close()
		t.Error("a closed runtime made a slot")
	}
}

func (s *suite) run(t *testing.T, ctx context.Context, a runtime.Attempt) *runtime.Report {
	t.Helper()
	rep, err := s.acquire(t, a.Program.Kind()).Run(ctx, a)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return rep
}

func (s *suite) success(t *testing.T) {
	before := time.Now()
	rep := s.run(t, t.Context(), s.attempt(t, printing("hello\n"), nil))
	if rep.Outcome != job.Succeeded || rep.ExitCode == nil || *rep.ExitCode != 0 {
		t.Errorf("outcome %s, exit code %v, want succeeded, 0; stderr %q", rep.Outcome, rep.ExitCode, rep.Stderr.Text)
	}
	if rep.Stdout.Text != "hello\n" || rep.Stdout.Bytes != 6 || rep.Stdout.Truncated {
		t.Errorf("stdout = %+v", rep.Stdout)
	}
	if rep.StartedAt.Before(before) || rep.StartedAt.After(time.Now()) {
		t.Errorf("StartedAt = %v, not within the run", rep.StartedAt)
	}
	if len(rep.Enforcement) == 0 {
		t.Error("no enforcement report")
	}
}

func (s *suite) startAndWait(t *testing.T) {
	p, err := s.acquire(t, "python").Start(t.Context(), s.attempt(t, printing("hello\n"), nil))
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	for range 2 {
		if rep, err := p.Wait(); err != nil || rep.Outcome != job.Succeeded || rep.Stdout.Text != "hello\n" {
			t.Errorf("Wait: %+v, %v", rep, err)
		}
	}
}

func (s *suite) exitCode(t *testing.T) {
	rep := s.run(t, t.Context(), s.attempt(t, python("import sys; sys.exit(3)", "exit=3"), nil))
	if rep.Outcome != job.Failed || rep.ExitCode == nil || *rep.ExitCode != 3 {
		t.Errorf("outcome %s, exit code %v, want failed, 3", rep.Outcome, rep.ExitCode)
	}
}

func (s *suite) wallClock(t *testing.T) {
	const wall = 300 * time.Millisecond
	a := s.attempt(t, sleeping(30*time.Second), func(p *policy.Policy) { p.Wall = job.Duration(wall) })
	slot := s.acquire(t, "python")
	begin := time.Now()
	rep, err := slot.Run(t.Context(), a)
	if err != nil || rep.Outcome != job.TimedOut {
		t.Fatalf("Run: %+v, %v, want timed_out", rep, err)
	}
	if took := time.Since(begin); took < wall || took > wall+KillTime+s.Slack {
		t.Errorf("ended after %v, want about %v", took, wall)
	}
}

// endAfterStart runs a long attempt and cancels its context with cause.
func (s *suite) endAfterStart(t *testing.T, cause error) (*runtime.Report, error) {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	slot := s.acquire(t, "python")
	a := s.attempt(t, sleeping(30*time.Second), nil)
	var ended time.Time
	timer := time.AfterFunc(300*time.Millisecond, func() { ended = time.Now(); end(cause) })
	defer timer.Stop()
	rep, err := slot.Run(ctx, a)
	if ctx.Err() == nil {
		t.Fatalf("Run ended by itself: %+v, %v", rep, err)
	}
	if took := time.Since(ended); took > KillTime+s.Slack {
		t.Errorf("the kill took %v, want at most %v", took, KillTime)
	}
	return rep, err
}

func (s *suite) cancel(t *testing.T) {
	rep, err := s.endAfterStart(t, runtime.ErrCanceled)
	if err != nil || rep.Outcome != job.OutcomeCanceled {
		t.Errorf("canceled: %+v, %v, want outcome canceled", rep, err)
	}
}

func (s *suite) kill(t *testing.T) {
	if rep, err := s.endAfterStart(t, job.ErrLost); err == nil {
		t.Errorf("killed by us: %+v, want an error", rep)
	}
}

func (s *suite) inputs(t *testing.T) {
	a := s.attempt(t, python(
		"for p in ('a','b'): print(open('/workspace/in/'+p).read(), end='')",
		"cat=/workspace/in/a cat=/workspace/in/b"), nil)
	a.Files = []runtime.File{
		{Path: "/workspace/in/a", Data: []byte("first,")},
		{Path: "/workspace/in/b", Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("second")), nil
		}},
	}
	if rep := s.run(t, t.Context(), a); rep.Stdout.Text != "first,second" {
		t.Errorf("stdout = %q, stderr = %q", rep.Stdout.Text, rep.Stderr.Text)
	}
}

func (s *suite) leavingAFile(t *testing.T) runtime.Attempt {
	return s.attempt(t, python(
		"import os; os.makedirs('/workspace/out'); open('/workspace/out/x','w').write('kept')",
		"artifact=/workspace/out/x:kept"),
		func(p *policy.Policy) { p.Artifacts.Paths = []string{"/workspace/out/**"} })
}

func (s *suite) artifacts(t *testing.T) {
	a := s.leavingAFile(t)
	kept := map[string]string{}
	a.Collect = func(_ context.Context, path string, size int64, r io.Reader) error {
		var b bytes.Buffer
		n, err := io.Copy(&b, r)
		if n > size {
			t.Errorf("%s yields %d bytes, more than its size %d", path, n, size)
		}
		kept[path] = b.String()
		return err
	}
	if rep := s.run(t, t.Context(), a); len(kept) != 1 || kept["/workspace/out/x"] != "kept" {
		t.Errorf("collected %v; outcome %s, stderr %q", kept, rep.Outcome, rep.Stderr.Text)
	}
}

func (s *suite) failingCollector(t *testing.T) {
	a := s.leavingAFile(t)
	broken := errors.New("object store is down")
	a.Collect = func(context.Context, string, int64, io.Reader) error { return broken }
	if rep, err := s.acquire(t, "python").Run(t.Context(), a); !errors.Is(err, broken) {
		t.Errorf("Run = %+v, %v, want the collector's error", rep, err)
	}
}

func (s *suite) attemptsDoNotMix(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 6 {
		want := fmt.Sprintf("attempt %d", i)
		slot, a := s.acquire(t, "python"), s.attempt(t, printing(want), nil)
		wg.Go(func() {
			if rep, err := slot.Run(t.Context(), a); err != nil || rep.Stdout.Text != want {
				t.Errorf("stdout = %+v, %v, want %q", rep, err, want)
			}
		})
	}
	wg.Wait()
}

// A runtime's digest of an image name equals the digest in its records.
func (s *suite) imagesAreKnown(t *testing.T) {
	rep := s.run(t, t.Context(), s.attempt(t, printing("x"), nil))
	images, ok := s.rt.(runtime.ImageLister)
	if !ok {
		t.Fatalf("%T is no runtime.ImageLister", s.rt)
	}
	if got := images.ImageDigests()[s.Image]; got == "" || got != rep.ImageDigest {
		t.Errorf("%s is said to be %q, and was %q", s.Image, got, rep.ImageDigest)
	}
	var all []policy.HostImage
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		all, _ = images.Images()
		if slices.ContainsFunc(all, func(i policy.HostImage) bool { return i.Digest == rep.ImageDigest && i.Name != "" && !i.Pulled }) {
			return
		}
	}
	t.Errorf("%s is not among %+v", rep.ImageDigest, all)
}
