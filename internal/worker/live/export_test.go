package live

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

// leaving makes sandboxes that always have the same files.
type leaving struct {
	sandboxes
	files  []string
	closed chan struct{}
}

func (s *leaving) Acquire(context.Context, runtime.Key) (runtime.Slot, error) {
	return leaver{of: s}, nil
}

type leaver struct {
	sandbox
	of *leaving
}

func (l leaver) Close() { close(l.of.closed) }

func (l leaver) gather(ctx context.Context, take runtime.Collector) ([]string, error) {
	for _, name := range l.of.files {
		if err := take(ctx, name, 4, strings.NewReader("text")); err != nil {
			return nil, err
		}
	}
	return []string{"artifact refused"}, ctx.Err()
}

func (l leaver) Start(ctx context.Context, a runtime.Attempt) (runtime.Process, error) {
	a.Gathered(l.gather)
	p, err := l.sandbox.Start(ctx, a)
	return leaves{p, l, a.Collect}, err
}

// leaves is a program that leaves files at its end.
type leaves struct {
	runtime.Process
	in   leaver
	take runtime.Collector
}

func (p leaves) Wait() (*runtime.Report, error) {
	report, err := p.Process.Wait()
	if err != nil {
		return nil, err
	}
	report.Feedback, err = p.in.gather(context.Background(), p.take)
	return report, err
}

// exports is a store of exports that rejects a file, or the list.
type exports struct {
	mu     sync.Mutex
	begun  int
	bad    string
	list   error
	sealed []string // files and messages of each sealed export
	hold   chan struct{}
	held   chan struct{}
}

func (s *exports) Begin() Exporting {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
	return &shelved{of: s, live: s.begun > 1} // the first is the final export
}

type shelved struct {
	of    *exports
	live  bool
	names []string
}

func (s *shelved) Collect(ctx context.Context, path string, _ int64, _ io.Reader) error {
	if s.live && s.of.hold != nil {
		close(s.of.held)
		<-ctx.Done()
		return ctx.Err()
	}
	if path == s.of.bad {
		return job.ErrUnavailable
	}
	s.names = append(s.names, path)
	return nil
}

func (s *shelved) Seal(_ context.Context, refused []string) error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.of.list != nil {
		return s.of.list
	}
	s.of.sealed = append(s.of.sealed, strings.Join(append(s.names, refused...), "; "))
	return nil
}

// exporting opens a session that exports its files to s.
func exporting(t *testing.T, s *exports, files ...string) (call func(control.SessionOp) (control.SessionReply, error), closed chan struct{}) {
	t.Helper()
	rt := &leaving{files: files, closed: make(chan struct{})}
	m := manage(t, Config{Runtime: rt, Exports: func(string, job.ID, policy.Artifacts) Exporter { return s }})
	c := opening("a", `{"artifacts":{"paths":["/out/**"],"max_bytes":"1Ki","max_files":9}}`)
	if _, err := m.Handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return func(op control.SessionOp) (control.SessionReply, error) {
		return m.Handle(t.Context(), control.SessionCall{Op: op, Session: c.Session, Tenant: "a"})
	}, rt.closed
}

// TestExportsSayWhatIsMissing checks that an export names the files that could not be stored, and stores the others.
// So does the final export.
func TestExportsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := &exports{bad: "/out/b"}
	call, closed := exporting(t, s, "/out/a", "/out/b", "/out/c")
	if _, err := call(control.SessionExport); err != nil {
		t.Fatal(err)
	}
	s.bad = "/out/c"
	r, err := call(control.SessionClose)
	if err != nil || r.Ended == nil || r.Ended.Message != "closed by its client" {
		t.Fatalf("%+v, %v", r.Ended, err)
	}
	<-closed
	want := []string{
		`/out/a; artifact refused; artifact "/out/b": cannot be stored: temporarily unavailable; artifact "/out/c": is not stored, since a previous one failed`,
		`/out/a; /out/b; artifact refused; artifact "/out/c": cannot be stored: temporarily unavailable`,
	}
	if !slices.Equal(s.sealed, want) {
		t.Errorf("%q, want %q", s.sealed, want)
	}
}

// TestEndsDuringAnExport checks that an export ends before its session's sandbox, and that only the final export
// counts. If its list cannot be stored, the session's message has the error.
func TestEndsDuringAnExport(t *testing.T) {
	t.Parallel()
	s := &exports{hold: make(chan struct{}), held: make(chan struct{})}
	call, closed := exporting(t, s, "/out/a")
	answer := make(chan error)
	go func() {
		r, err := call(control.SessionExport)
		if err == nil && r.Ended == nil {
			err = errors.New("it lives")
		}
		answer <- err
	}()
	<-s.held
	if r, err := call(control.SessionClose); err != nil || r.Ended == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := <-answer; err != nil {
		t.Errorf("the export: %v", err)
	}
	<-closed
	if !slices.Equal(s.sealed, []string{"/out/a; artifact refused"}) {
		t.Errorf("%q", s.sealed)
	}

	s = &exports{list: job.ErrUnavailable}
	call, _ = exporting(t, s, "/out/a")
	if _, err := call(control.SessionExport); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("a list that is not stored: %v", err)
	}
	if r, err := call(control.SessionClose); err != nil || r.Ended == nil || !strings.Contains(r.Ended.Message, "closed by its client; its artifacts could not be kept: ") {
		t.Errorf("%+v, %v", r.Ended, err)
	}
}
