package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// bareHost is a host without mounts, whose pip knows every package whose name does not begin
// with "no".
type bareHost struct {
	t      *testing.T
	closed bool

	mu     sync.Mutex
	mounts map[string]*bareMount
	ran    int // how often pip ran
}

// bareMount is an environment on a bareHost.
type bareMount struct {
	host  *bareHost
	layer Layer
	users int
	used  time.Time
	gone  bool
}

func (h *bareHost) Context() context.Context { return h.t.Context() }

func (h *bareHost) Join() (func(), error) {
	if h.closed {
		return nil, context.Canceled
	}
	return func() {}, nil
}

func (h *bareHost) Detach(name string) (func(), bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.mounts[name]
	if m == nil || m.users > 0 {
		return nil, m == nil
	}
	m.gone = true
	delete(h.mounts, name)
	return func() {}, true
}

func (h *bareHost) LastUse(name string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.mounts[name]; m != nil {
		return m.used
	}
	return time.Time{}
}

func (m *bareMount) Hold() (func(), error) {
	m.host.mu.Lock()
	defer m.host.mu.Unlock()
	if m.gone {
		return nil, ErrCollected
	}
	m.users, m.used = m.users+1, time.Now()
	return func() {
		m.host.mu.Lock()
		defer m.host.mu.Unlock()
		m.users, m.used = m.users-1, time.Now()
	}, nil
}

// bareImage is the base of the environments of a bareHost.
type bareImage struct{ *bareHost }

func (i bareImage) Hold() (func(), error) { return func() {}, nil }

func (i bareImage) Mount(l Layer) (Image, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mounts[l.Name] != nil {
		i.t.Errorf("%s is mounted twice", l.Name)
	}
	i.mounts[l.Name] = &bareMount{host: i.bareHost, layer: l, used: time.Now()}
	return i.mounts[l.Name], nil
}

// Run does what pip would: each package is one wheel, and one module of a kilobyte.
func (i bareImage) Run(_ context.Context, a runtime.Attempt, look func(*os.Root)) (*runtime.Report, error) {
	i.mu.Lock()
	i.ran++
	i.mu.Unlock()
	dir := i.t.TempDir()
	args, asked := a.Program.Command.Argv, ""
	for _, f := range a.Files {
		if f.Path == buildList {
			asked = string(f.Data)
		}
	}
	for line := range strings.Lines(asked) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "==")
		if strings.HasPrefix(name, "no") {
			return &runtime.Report{Result: job.Result{Outcome: job.Failed, Stderr: job.Output{Text: "there is no " + name}}}, nil
		}
		file, body := "wheels/"+name+"-1.0-py3-none-any.whl", zipOf(i.t, name+"-1.0.dist-info/METADATA", "Name: "+name+"\nVersion: 1.0\n")
		if args[4] == "install" {
			file, body = "root/"+site+name+".py", make([]byte, 1000)
		}
		file = filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, body, 0o644)); err != nil {
			return nil, err
		}
	}
	work, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	look(work)
	return &runtime.Report{Result: job.Result{Outcome: job.Succeeded}}, nil
}

func openBare(t *testing.T, most job.Size) (*Store, *bareHost, Base) {
	t.Helper()
	h := &bareHost{t: t, mounts: map[string]*bareMount{}}
	s, err := Open(Config{Dir: t.TempDir(), Size: job.MiB, Most: most, Time: time.Minute, Index: PyPI}, h)
	if err != nil {
		t.Fatal(err)
	}
	base := layBase(t, nil)
	base.Image = bareImage{h}
	return s, h, base
}

// An environment is built once for all who want it at once, mounted once for all lists that
// come to the same, and kept when it is not mounted any more.
func TestGet(t *testing.T) {
	t.Parallel()
	s, h, base := openBare(t, job.MiB)
	got := make([]Image, 10)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = s.Get(t.Context(), base, "tenant", []string{"one", "one==1.0"}[i%2]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, img := range got {
		if img != got[0] {
			t.Error("the same packages are mounted twice")
		}
	}
	if h.ran != 4 || len(h.mounts) != 1 { // each list is resolved, and installed
		t.Errorf("pip ran %d times, %d are mounted", h.ran, len(h.mounts))
	}
	m := got[0].(*bareMount)
	if len(m.layer.Packages) != 1 || !strings.HasPrefix(m.layer.Packages[0], "one==1.0 --hash=sha256:") {
		t.Errorf("it holds %q", m.layer.Packages)
	}
	release, err := m.Hold()
	if err != nil {
		t.Fatal(err)
	}
	s.Rest([]string{m.layer.Name})
	if again, err := s.Get(t.Context(), base, "another", "one"); again != got[0] || err != nil {
		t.Errorf("what is in use was unmounted: %v, %v", again, err)
	}
	release()
	s.Rest([]string{m.layer.Name})
	if _, err := m.Hold(); !errors.Is(err, ErrCollected) {
		t.Errorf("what nobody uses is held: %v", err)
	}
	if again, err := s.Get(t.Context(), base, "another", "one"); again == got[0] || err != nil || h.ran != 4 {
		t.Errorf("what is kept: %v, %v; pip ran %d times", again, err, h.ran)
	}
	h.closed = true
	if _, err := s.Get(t.Context(), base, "tenant", "two"); !errors.Is(err, context.Canceled) {
		t.Errorf("while the host closes: %v", err)
	}
}

// TestFailuresAreRemembered checks that an environment that cannot be built is not tried again for a while
// for the tenant that asked for it.
func TestFailuresAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, h, base := openBare(t, job.MiB)
		for i, c := range []struct {
			tenant string
			wait   time.Duration
			ran    int
		}{{"a", 0, 1}, {"a", 0, 1}, {"b", 0, 2}, {"a", failedTTL - time.Second, 2}, {"a", 2 * time.Second, 3}} {
			time.Sleep(c.wait)
			_, err := s.Get(t.Context(), base, c.tenant, "nothing")
			if failure := new(runtime.BuildError); !errors.As(err, &failure) || !strings.Contains(failure.Message, "there is no nothing") {
				t.Errorf("%d: %v", i, err)
			}
			if h.ran != c.ran {
				t.Errorf("%d: pip ran %d times, want %d", i, h.ran, c.ran)
			}
		}
	})
}

// TestRoomIsMade checks that environments in use leave no room, which passes, and that unused ones make room.
func TestRoomIsMade(t *testing.T) {
	t.Parallel()
	s, h, base := openBare(t, 2500)
	var release func()
	for i := range 3 {
		img, err := s.Get(t.Context(), base, fmt.Sprint("tenant ", i), fmt.Sprint("package", i))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 { // the one used longest ago
			if release, err = img.Hold(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(h.mounts) != 2 {
		t.Errorf("%d are mounted, and there is room for two", len(h.mounts))
	}
	if _, err := s.Get(t.Context(), base, "tenant 0", "package0"); err != nil || h.ran != 6 {
		t.Errorf("the one in use: %v; pip ran %d times", err, h.ran)
	}
	s.cfg.Most = 500
	if _, err := s.Get(t.Context(), base, "tenant 3", "package3"); !errors.Is(err, runtime.ErrImage) {
		t.Errorf("with all of the space in use: %v", err)
	}
	release()
	if err := s.Tidy(); err != nil || len(h.mounts) != 0 {
		t.Errorf("%d are mounted when nobody uses any, %v", len(h.mounts), err)
	}
	left, err := os.ReadDir(s.cfg.Dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
