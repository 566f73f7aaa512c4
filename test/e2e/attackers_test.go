package e2e

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/test/hostile"
)

// attackers run programs of the hostile corpus in a loop, through the API.
type attackers struct {
	api      *client.Client
	level    string
	corpus   []*hostile.Attack
	binaries map[string][]byte
	bait     *hostile.Bait
	cgroup   string // of the worker
	mark     string // of this loop's processes
	theirs   bool   // whether the victims are of the attackers' tenant

	alone  sync.RWMutex // read-locked by attacks that disturb no other
	next   atomic.Int64
	ran    atomic.Int64 // finished attacks
	first  atomic.Int64 // finished attacks of the first round
	halted atomic.Bool
}

// newAttackers compiles the C programs of the corpus, in a job of the attackers.
func newAttackers(t *testing.T, f *fleet, api *client.Client, level string, corpus []*hostile.Attack) *attackers {
	t.Helper()
	bait, err := hostile.LayBait(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bait.Close)
	a := &attackers{api: api, level: level, corpus: corpus, binaries: map[string][]byte{}, bait: bait, mark: string(job.NewID())}
	build, program, sources, err := hostile.Build(corpus)
	if err != nil {
		t.Fatal(err)
	}
	r, err := api.Run(t.Context(), a.spec(t, build, program, sources, nil))
	if err != nil || r.Outcome != job.Succeeded {
		t.Fatalf("compile the corpus: %s, %v", seen(r), err)
	}
	for _, file := range r.Artifacts {
		content, err := api.Artifact(t.Context(), r.ID, file.Path)
		if err != nil {
			t.Fatal(err)
		}
		a.binaries[hostile.Built(file.Path)], err = io.ReadAll(content)
		if content.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a.cgroup = f.cgroupOfJobs(t)
	return a
}

// cgroupOfJobs returns the control group of all jobs of the fleet's worker.
func (f *fleet) cgroupOfJobs(t *testing.T) (name string) {
	t.Helper()
	group := regexp.MustCompile(`:(/assay-[0-9a-f]+)/`)
	eventually(t, "a sandbox is in a control group of the worker's", func() bool {
		for _, pid := range f.sandboxed() {
			raw, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
			if m := group.FindStringSubmatch(string(raw)); err == nil && m != nil {
				name = m[1]
			}
		}
		return name != ""
	})
	return name
}

// spec returns the job of an attack.
func (a *attackers) spec(t *testing.T, c *hostile.Attack, p job.Program, files map[string][]byte, env map[string]string) job.Spec {
	document, err := c.Document(policy.Isolation(a.level), env)
	if err != nil {
		t.Error(err)
	}
	s := job.Spec{Name: c.String(), Program: p, Files: map[string]job.File{}, Policy: document}
	for path, data := range files {
		text, coded := string(data), base64.StdEncoding.EncodeToString(data)
		if utf8.Valid(data) {
			s.Files[path] = job.File{Text: &text}
		} else {
			s.Files[path] = job.File{Base64: &coded}
		}
	}
	return s
}

// attack starts the loop. After stop, the returned function waits until the running attacks are
// over and judged, and no process of any attack is left.
func (a *attackers) attack(t *testing.T) (ended func()) {
	var lanes sync.WaitGroup
	for range neighbourLanes {
		lanes.Go(func() {
			for !a.halted.Load() && t.Context().Err() == nil {
				i := int(a.next.Add(1)) - 1
				a.one(t, a.corpus[i%len(a.corpus)])
				if a.ran.Add(1); i < len(a.corpus) {
					a.first.Add(1)
				}
			}
		})
	}
	return func() {
		lanes.Wait()
		for _, what := range a.bait.Taken() {
			t.Error(what)
		}
		eventually(t, "no process of an attack lives", func() bool { return len(hostile.WithMark(a.mark)) == 0 })
	}
}

// once reports whether every program has been run.
func (a *attackers) once() bool { return int(a.first.Load()) == len(a.corpus) }

func (a *attackers) stop() { a.halted.Store(true) }

// one runs an attack and judges it.
func (a *attackers) one(t *testing.T, c *hostile.Attack) {
	if c.Alone { // alone among attacks; it runs beside innocent jobs
		a.alone.Lock()
		defer a.alone.Unlock()
	} else {
		a.alone.RLock()
		defer a.alone.RUnlock()
	}
	program, files, err := c.Program(a.binaries[c.String()])
	if err != nil {
		t.Error(err)
		return
	}
	r, err := a.api.Run(t.Context(), a.spec(t, c, program, files, a.bait.Env(a.mark, a.cgroup)))
	if err != nil || len(r.Attempts) != 1 {
		t.Errorf("%s: %s, %v, want one attempt", c, seen(r), err)
		return
	}
	kept := []string{}
	for _, file := range r.Artifacts {
		kept = append(kept, file.Path)
	}
	wrong := c.Judge(policy.Isolation(a.level), hostile.Seen{Outcome: r.Outcome, Message: r.Message, Said: r.Stdout.Text + r.Stderr.Text, Kept: kept})
	if raw, err := json.Marshal(r); err != nil || strings.Contains(string(raw), a.bait.Secret()) {
		wrong = append(wrong, "it read the file on the host")
	}
	if c.Alone && a.theirs && a.level == "cell" && r.Outcome == job.Failed {
		return // it reaches its own tenant's job, which shares its cell
	}
	for _, what := range wrong {
		t.Errorf("%s: %s", c, what)
	}
	if len(wrong) > 0 {
		t.Log(seen(r))
	}
}
