package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
)

var lang = &language.Language{
	Name: "fake", Title: "Fake", File: "main.f", Endings: []string{".f"}, Version: []string{"fc", "--version"},
	Compile: &language.Step{Argv: []string{"fc", "-o", "{out}/main", "{files}", "-lm"}, Env: map[string]string{"FC": "1"}, Memory: 64 * job.MiB, Processes: 100},
	Run:     language.Step{Argv: []string{"{out}/main"}},
}

func program(edit ...func(*Program)) *Program {
	p := policy.Default()
	prog := &Program{
		Tenant: "acme", Image: "poly", Language: lang, Sources: map[string]string{"main.f": "print"}, Main: "main.f",
		How: job.Compile{Wall: job.Duration(10 * time.Second), Memory: 64 * job.MiB}, Policy: &p,
	}
	for _, e := range edit {
		e(prog)
	}
	return prog
}

// compiler is a scripted compiler in an image whose digest is known after a run.
type compiler struct {
	runs   atomic.Int64
	report runtime.Report    // result of every run
	leaves map[string]string // path in the sandbox → contents
	hold   chan struct{}     // nil: it does not wait
	fails  error
	asked  []Request
	mu     sync.Mutex
}

func compiles() *compiler {
	return &compiler{
		report: runtime.Report{Result: job.Result{Outcome: job.Succeeded, ExitCode: new(int), ImageDigest: "sha256:1"}},
		leaves: map[string]string{keep: "", language.Out + "/main": "\x7fELF", language.Out + "/lib/../../etc": "x"},
	}
}

func ends(o job.Outcome, code int, stderr string) *compiler {
	c := compiles()
	c.report.Outcome, c.report.ExitCode, c.report.Stderr.Text, c.leaves = o, &code, stderr, nil
	return c
}

func (c *compiler) run(ctx context.Context, r Request) (*runtime.Report, error) {
	c.runs.Add(1)
	c.mu.Lock()
	c.asked = append(c.asked, r)
	c.mu.Unlock()
	if c.hold != nil {
		select {
		case <-c.hold:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if c.fails != nil {
		return nil, c.fails
	}
	for path, text := range c.leaves {
		if err := r.Collect(ctx, path, int64(len(text)), strings.NewReader(text)); err != nil {
			return nil, err
		}
	}
	rep := c.report
	return &rep, nil
}

func cache(t *testing.T, limit int64) *Cache {
	t.Helper()
	c, err := New(filepath.Join(t.TempDir(), "compiled"), limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func get(t *testing.T, c *Cache, p *Program, run Make) *Output {
	t.Helper()
	out, err := c.Get(t.Context(), p, run)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func contents(t *testing.T, f runtime.File) string {
	t.Helper()
	r, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheSameSourceIsCompiledOnce(t *testing.T) {
	t.Parallel()
	c, comp := cache(t, 1<<20), compiles()
	delete(comp.leaves, language.Out+"/lib/../../etc")
	for i := range 3 {
		out := get(t, c, program(), comp.run)
		if out.Why != "" || out.Compiled.Cached != (i > 0) || out.Compiled.Language != "fake" || out.Digest != "sha256:1" {
			t.Errorf("%d: %+v", i, out)
		}
		if len(out.Files) != 1 || out.Files[0].Path != language.Out+"/main" || !out.Files[0].Compiled || contents(t, out.Files[0]) != "\x7fELF" {
			t.Errorf("%d: %+v", i, out.Files)
		}
		out.Release()
	}
	if n := comp.runs.Load(); n != 1 {
		t.Errorf("compiled %d times", n)
	}
	r := comp.asked[0]
	if diff := cmp.Diff([]string{"fc", "-o", "/workspace/.out/main", "main.f", "-lm"}, r.Command.Argv); diff != "" {
		t.Error(diff)
	}
	if r.Policy.Network.Mode != policy.NetworkNone || r.Policy.Memory != 64*job.MiB || r.Policy.Processes != 100 || r.Policy.Env.Set["FC"] != "1" || r.Command.Dir != "/workspace" {
		t.Errorf("%+v", r)
	}
}

// TestNamesOnDiskAreOurs checks that the files of a compiled program get generated names on disk.
func TestNamesOnDiskAreOurs(t *testing.T) {
	t.Parallel()
	c, comp := cache(t, 1<<20), compiles()
	out := get(t, c, program(), comp.run)
	defer out.Release()
	if len(out.Files) != 2 {
		t.Fatalf("%+v", out.Files)
	}
	var names []string
	err := filepath.WalkDir(filepath.Dir(c.dir), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, filepath.Base(path))
		}
		return err
	})
	if diff := cmp.Diff([]string{"0", "1"}, names); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestWhatIsCompiledAnew(t *testing.T) {
	t.Parallel()
	c, comp := cache(t, 1<<20), compiles()
	get(t, c, program(), comp.run).Release()
	set := policy.Default()
	set.Env.Set = map[string]string{"CPATH": "/workspace"}
	restricted := policy.Default()
	restricted.RestrictHelpers = true
	n := int64(1)
	for name, edit := range map[string]func(*Program){
		"another tenant":      func(p *Program) { p.Tenant = "other" },
		"another image":       func(p *Program) { p.Digest = "sha256:2" },
		"another source":      func(p *Program) { p.Sources = map[string]string{"main.f": "print "} },
		"another path":        func(p *Program) { p.Sources = map[string]string{"a.f": "print"}; p.Main = "a.f" },
		"one source more":     func(p *Program) { p.Sources = map[string]string{"main.f": "print", "b": ""} },
		"text in another one": func(p *Program) { p.Sources = map[string]string{"main.f": "", "b": "print"} },
		"flags":               func(p *Program) { p.How.Flags = []string{"-O3"} },
		"more memory":         func(p *Program) { p.How.Memory *= 2 },
		"environment":         func(p *Program) { p.Policy = &set },
		"a restriction":       func(p *Program) { p.Policy = &restricted },
		"another language":    func(p *Program) { l := *lang; l.Name = "fake2"; p.Language = &l },
	} {
		comp.report.ImageDigest = "sha256:1"
		if p := program(edit); p.Digest != "" {
			comp.report.ImageDigest = p.Digest
		}
		out := get(t, c, program(edit), comp.run)
		out.Release()
		if n++; out.Compiled.Cached || comp.runs.Load() != n {
			t.Errorf("%s: cached %v, %d runs", name, out.Compiled.Cached, comp.runs.Load())
		}
		n = comp.runs.Load()
		clear(c.digests)
		c.digests["poly"] = imageDigests{"", "sha256:1"}
	}
	if out := get(t, c, program(func(p *Program) { p.How.Wall *= 2 }), comp.run); !out.Compiled.Cached {
		t.Error("more time made it another program")
	}
}

// TestRestrictedCompiler checks that a policy that restricts helpers limits the compiler.
func TestRestrictedCompiler(t *testing.T) {
	t.Parallel()
	strict := policy.Default()
	strict.Memory, strict.Wall, strict.Processes, strict.Disk = 32*job.MiB, job.Duration(time.Second), 3, job.MiB
	strict.Syscalls, strict.Subprocesses = "strict", false
	free := program(func(p *Program) { p.Policy = &strict }).bare()
	if free.Memory <= strict.Memory || !free.Subprocesses || free.Syscalls == "strict" {
		t.Errorf("not restricted: %+v", free)
	}
	strict.RestrictHelpers = true
	held := program(func(p *Program) { p.Policy = &strict }).bare()
	if held.Memory > strict.Memory || held.Wall > strict.Wall || held.CPUTime > strict.CPUTime || held.Processes > 3 || held.Disk > 2*job.MiB ||
		held.Subprocesses || held.Syscalls != "strict" || held.Network.Mode != policy.NetworkNone {
		t.Errorf("restricted: %+v", held)
	}
}

// TestRefusals checks that only errors that the compiler itself reports are cached.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]struct {
		comp *compiler
		why  string
		kept bool
	}{
		"an error":       {ends(job.Failed, 1, "note: x\nmain.f:1: error: no\nmore"), "Fake: it does not compile: main.f:1: error: no", true},
		"no words":       {ends(job.Failed, 1, ""), "Fake: it does not compile: ", true},
		"nothing made":   {ends(job.Succeeded, 0, ""), "Fake: the compiler made nothing of it", true},
		"no end":         {ends(job.TimedOut, 0, ""), "Fake: it was not compiled to the end", false},
		"too much":       {ends(job.OutOfMemory, 0, ""), "Fake: it was not compiled to the end", false},
		"a signal":       {ends(job.Signaled, 0, ""), "Fake: it was not compiled to the end", false},
		"its own 127":    {ends(job.Failed, 127, "error: of its own"), "Fake: it does not compile: error: of its own", true},
		"a full disk":    {ends(job.DiskLimit, 1, ""), "Fake: it was not compiled to the end", false},
		"output refused": {compiles(), "Fake: the compiled program cannot be kept", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cache(t, 1<<20)
			run := r.comp.run
			switch name {
			case "its own 127": // the language exists
				run = func(ctx context.Context, q Request) (*runtime.Report, error) {
					rep, err := r.comp.run(ctx, q)
					if q.Command.Argv[1] == "--version" {
						rep.ExitCode, rep.Outcome = new(int), job.Succeeded
					}
					return rep, err
				}
			case "output refused":
				r.comp.report.Feedback = []string{`artifact "/workspace/.out/main": its 9 bytes exceed the rest of the limit of 3`}
			}
			out := get(t, c, program(), run)
			if !strings.HasPrefix(out.Why, r.why) || len(out.Files) != 0 {
				t.Errorf("%+v", out)
			}
			out.Release()
			n := r.comp.runs.Load()
			again := get(t, c, program(), run)
			again.Release()
			if again.Why != out.Why || again.Compiled.Cached != r.kept || r.kept != (r.comp.runs.Load() == n) {
				t.Errorf("again: %+v after %d runs", again, r.comp.runs.Load())
			}
		})
	}
}

func TestLanguagesThatAreMissing(t *testing.T) {
	t.Parallel()
	c := cache(t, 1<<20)
	unbegun := ends(job.Failed, 127, "")
	unbegun.report.Unbegun, unbegun.report.Message = true, "no such program"
	script := ends(job.Failed, 127, "fc: fcc: not found") // also for its version
	for name, comp := range map[string]*compiler{"no compiler": unbegun, "a script without it": script} {
		missing := new(Missing)
		for range 2 { // not cached
			n := comp.runs.Load()
			if _, err := c.Get(t.Context(), program(), comp.run); !errors.As(err, &missing) || !strings.HasPrefix(missing.Error(), "language fake: the image poly does not have it (fc: ") || comp.runs.Load() == n {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestFailuresAreNotShared checks that after a failure of the worker each caller tries by itself.
func TestFailuresAreNotShared(t *testing.T) {
	t.Parallel()
	c, comp := cache(t, 1<<20), compiles()
	comp.hold, comp.fails = make(chan struct{}), errors.New("ours")
	errs := make(chan error, 3)
	for range 3 {
		go func() { _, err := c.Get(t.Context(), program(), comp.run); errs <- err }()
	}
	close(comp.hold)
	for range 3 {
		if err := <-errs; !errors.Is(err, comp.fails) {
			t.Error(err)
		}
	}
	if comp.runs.Load() != 3 || len(c.entries) != 0 || len(c.flights) != 0 {
		t.Errorf("%d runs, %d entries, %d flights", comp.runs.Load(), len(c.entries), len(c.flights))
	}
	if left, err := os.ReadDir(c.dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestManyWaitForOne checks that concurrent callers of the same program wait for one run, even if the image's digest
// is unknown. A canceled caller does not affect the others.
func TestManyWaitForOne(t *testing.T) {
	t.Parallel()
	for _, digest := range []string{"", "sha256:1", "sha256:0"} { // the last one is out of date
		c, comp := cache(t, 1<<20), compiles()
		comp.hold = make(chan struct{})
		known := func(p *Program) { p.Digest = digest }
		var wg sync.WaitGroup
		var cached atomic.Int64
		for range 20 {
			wg.Go(func() {
				out, err := c.Get(t.Context(), program(known), comp.run)
				if err != nil || len(out.Files) != 2 {
					t.Errorf("%+v, %v", out, err)
					return
				}
				for _, f := range out.Files {
					contents(t, f)
				}
				if out.Compiled.Cached {
					cached.Add(1)
				}
				out.Release()
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { _, err := c.Get(ctx, program(known), comp.run); gone <- err }()
		await(t, c, 20)
		cancel()
		if err := <-gone; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(comp.hold)
		wg.Wait()
		if comp.runs.Load() > 2 || cached.Load() < 18 { // the leader may be the canceled caller
			t.Errorf("digest %q: %d runs, %d cached", digest, comp.runs.Load(), cached.Load())
		}
		for _, e := range c.entries {
			if e.refs != 0 {
				t.Errorf("digest %q: %d users are left", digest, e.refs)
			}
		}
	}
}

// await waits until n callers wait for a flight.
func await(t *testing.T, c *Cache, n int) {
	t.Helper()
	for range 1000 {
		c.mu.Lock()
		waiting := 0
		for _, f := range c.flights {
			waiting += f.waiting
		}
		c.mu.Unlock()
		if waiting >= n {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("they do not wait")
}

// TestTheCacheIsBounded checks that the least recently used entry is evicted first, and that used entries stay
// readable.
func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := cache(t, 40<<10)
	big := compiles()
	big.leaves = map[string]string{language.Out + "/main": string(bytes.Repeat([]byte("x"), 10<<10))}
	source := func(i int) func(*Program) {
		return func(p *Program) { p.Sources = map[string]string{"main.f": fmt.Sprint(i)} }
	}
	first := get(t, c, program(source(0)), big.run)
	for i := 1; i < 10; i++ {
		get(t, c, program(source(i)), big.run).Release()
	}
	if c.total > c.limit || len(c.entries) != 2 || len(c.order) != 2 {
		t.Errorf("%d bytes in %d entries", c.total, len(c.entries))
	}
	if len(contents(t, first.Files[0])) != 10<<10 {
		t.Error("what is in use went")
	}
	first.Release()
	first.Release() // once
	if left, err := os.ReadDir(c.dir); err != nil || len(left) != 2 {
		t.Errorf("%v is left, %v", left, err)
	}
	n := big.runs.Load()
	get(t, c, program(source(8)), big.run).Release()
	get(t, c, program(source(10)), big.run).Release()
	if out := get(t, c, program(source(8)), big.run); !out.Compiled.Cached || big.runs.Load() != n+1 {
		t.Error("what was used last went first")
	}
}

// TestWhatIsTooLarge checks that a compiled program that is too large to be kept is rejected.
func TestWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	tk := &compilerOutput{dir: t.TempDir()}
	if err := tk.take(t.Context(), language.Out+"/a", int64(maxBytes)+1, strings.NewReader("")); !errors.Is(err, job.ErrTooLarge) {
		t.Error(err)
	}
	tk.files = make([]file, maxFiles)
	if err := tk.take(t.Context(), language.Out+"/a", 1, strings.NewReader("1")); !errors.Is(err, job.ErrTooLarge) {
		t.Error(err)
	}
	if err := tk.take(t.Context(), "/workspace/main.f", 1, strings.NewReader("1")); err != nil || len(tk.files) != maxFiles {
		t.Error("a source was taken for something compiled")
	}
}
