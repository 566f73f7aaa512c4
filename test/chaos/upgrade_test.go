//go:build upgrade

package chaos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// `make test-upgrade` builds the programs of the previous release, from the commit in the Makefile.
// Their version is previousVersion.
var (
	previousPrograms = flag.String("upgrade.previous", "", "directory of the previous release's programs")
	upgradeJobs      = flag.Int("upgrade.jobs", 1000, "jobs of each order of TestUpgrade")
)

const previousVersion = "previous"

// TestUpgrade replaces the programs of a fleet by those of this source, one after the other while
// it works. Then it goes back to the old ones, over the schema that the new ones have migrated.
// Every job is recorded once, at its first attempt.
func TestUpgrade(t *testing.T) {
	if *previousPrograms == "" {
		t.Fatal("-upgrade.previous names no directory; run: make test-upgrade")
	}
	for name, order := range map[string]func(*fleet) []*process{
		"dispatchers first": func(f *fleet) []*process { return append(f.dispatchers[:2:2], f.workers...) },
		"workers first":     func(f *fleet) []*process { return append(f.workers[:2:2], f.dispatchers...) },
	} {
		t.Run(name, func(t *testing.T) { upgraded(t, order) })
	}
}

func upgraded(t *testing.T, order func(*fleet) []*process) {
	programs := []string{built(t), *previousPrograms}
	dir := plainDir(t)
	s := realShape(t, dir, shape{dispatchers: 2, workers: -1, lease: 30 * time.Second, programs: *previousPrograms, env: []string{"ASSAY_GRACE=30s"}})
	for i := range 2 {
		name := fmt.Sprintf("worker%d", i)
		s.addWorker(name, "ASSAY_CONTAINERD_NAMESPACE=chaos-"+instance(dir)+"-"+name) // runc's state is by namespace
	}
	s.ready()
	ps := order(s.fleet)
	l := startLoad(s.fleet, *upgradeJobs, 2*len(ps)+2) // the old programs alone run the first and the last part
	for _, to := range programs {
		for _, p := range ps {
			l.next()
			s.replace(p, to)
			s.session(p.name)
		}
		if to != *previousPrograms {
			l.wholeOutputs()
		}
	}
	l.done()
	v := s.check()
	s.readBack(l)
	charged := s.count("SELECT count(*) FROM jobs WHERE losses > 0 OR tries <> 1")
	if charged > 0 {
		t.Errorf("%d jobs were charged", charged)
	}
	if n := s.count("SELECT count(*) FROM attempts WHERE reason NOT IN ('drained', 'preempted')"); n > 0 {
		t.Errorf("%d attempts were handed back for another reason", n)
	}
	if n := s.count("SELECT count(*) FROM jobs WHERE outcome IS DISTINCT FROM 'succeeded'"); n > 0 || v.jobs < l.jobs {
		t.Errorf("%d jobs of %d, %d did not succeed", v.jobs, l.jobs, n)
	}
	t.Logf("%d components upgraded and rolled back: jobs %d, results %d, lost %d, doubled %d, charged %d, ran again %d, outputs beside results %d",
		len(ps), v.jobs, v.results, v.lost, v.doubled, charged, v.again, s.count(`SELECT count(*) FROM results WHERE body LIKE '%"stored"%'`))
	for _, what := range s.end() {
		t.Errorf("left behind: %s", what)
	}
}

// replace replaces p by a program of another directory, and waits until it runs.
func (f *fleet) replace(p *process, programs string) {
	f.t.Helper()
	f.t.Logf("%s: %s after %d jobs", p.name, filepath.Base(filepath.Dir(programs)), f.in(job.Finished))
	p.replace(f.t, programs)
	for i, d := range f.dispatchers {
		if d == p {
			eventually(f.t, p.name+" is ready", func() bool { return f.apis[i].Ready(f.t.Context()) == nil })
			return
		}
	}
	eventually(f.t, p.name+" is known", func() bool {
		ws, err := f.api.Workers(f.t.Context())
		for _, w := range ws {
			if w.ID == p.name {
				return err == nil && (w.Version == previousVersion) == (programs == *previousPrograms) && isolates(w)
			}
		}
		return false
	})
}

// replace stops the process and starts another program instead, as an upgrade does.
func (p *process) replace(t *testing.T, programs string) {
	t.Helper()
	p.term(t)
	p.path = filepath.Join(programs, filepath.Base(p.path))
	p.start(t)
}

func isolates(w store.Worker) bool { return strings.Contains(string(w.Host), `"task"`) }

// session briefly uses a session, through a dispatcher and a worker that may have different
// versions.
func (f *fleet) session(after string) {
	f.t.Helper()
	for i, at := range f.apis {
		s, err := at.CreateSession(f.t.Context(), job.SessionSpec{})
		if err != nil {
			f.t.Errorf("open a session at dispatcher%d after %s: %v", i, after, err)
			continue
		}
		// At another dispatcher, which asks its peers, or the worker itself.
		e, err := f.apis[1-i].Execute(f.t.Context(), s.ID, api.ExecuteRequest{Code: "print(6 * 7)"})
		if err != nil || e.Outcome != job.Succeeded || e.Stdout.Text != "42\n" {
			f.t.Errorf("execute after %s: %+v, %v", after, e, err)
		}
		if _, err := at.CloseSession(f.t.Context(), s.ID); err != nil {
			f.t.Errorf("close a session after %s: %v", after, err)
		}
	}
}

// load submits jobs of every kind in parts, each after the previous one is done. So there is always
// some work while a component is replaced, and never too much.
type load struct {
	f           *fleet
	jobs, parts int
	part        atomic.Int64 // the running part
	over        chan struct{}
	batches     []job.ID // to be read when over is closed
}

const largeText = 400_000 // bytes of an output that workers store beside the result

// partTime is the approximate time of a part of the load, longer than the replacement of a
// component.
const partTime = 6 * time.Second

// spec returns the i-th job: mostly a small command, and some of all other kinds.
func (l *load) spec(i int) job.Spec {
	nap := min(partTime*time.Duration(2*l.f.shape.slots*l.parts)/time.Duration(l.jobs), time.Second)
	s := job.Spec{Image: "python", Program: job.Program{Command: &job.Command{Argv: []string{"sh", "-c", fmt.Sprintf("sleep %.3f; echo %d", nap.Seconds(), i)}}}}
	switch i % 50 {
	case 7:
		s = program("cell", fmt.Sprintf("print('x' * %d, end='')", largeText), `"stdout": {"limit": "2Mi"}`)
	case 17:
		s = program("cell", "open('/workspace/kept', 'w').write('kept')", `"artifacts": {"paths": ["/workspace/**"]}`)
	case 27:
		s.Program = job.Program{Tests: &job.Tests{Code: "def f(x):\n    return 2 * x", Function: "f", Cases: []job.Case{{Args: []json.RawMessage{json.RawMessage("2")}, Expected: json.RawMessage("4")}}}}
	case 37:
		s.Program.Command = &job.Command{Steps: []job.Step{
			{Name: "write", Argv: []string{"sh", "-c", "echo one > /workspace/f"}},
			{Name: "read", Argv: []string{"sh", "-c", fmt.Sprintf("cat /workspace/f; head -c %d /dev/zero | tr '\\0' y", largeText)}},
		}}
		s.Policy = json.RawMessage(`{"stdout": {"limit": "2Mi"}}`)
	case 47:
		s = program("task", "print(1)")
	}
	s.Name = fmt.Sprint(i)
	return s
}

// startLoad submits jobs in batches and some alone, at alternating dispatchers.
func startLoad(f *fleet, jobs, parts int) *load {
	l := &load{f: f, jobs: jobs, parts: parts, over: make(chan struct{})}
	go func() {
		defer close(l.over)
		per := max(jobs/50, 20)
		for n, turn := 0, 0; n < jobs; {
			if f.t.Failed() || f.t.Context().Err() != nil {
				return
			}
			if n >= int(l.part.Load()+2)*jobs/parts || f.unfinished() > 2*per {
				time.Sleep(50 * time.Millisecond)
				continue
			}
			k := min(per, jobs-n)
			if err := l.submit(turn%len(f.apis), n, k, max(per/10, 1)); err != nil {
				f.t.Errorf("submit: %v", err)
				return
			}
			n, turn = n+k, turn+1
		}
	}()
	return l
}

// next waits until the running part is done, and begins the next one.
func (l *load) next() {
	l.f.t.Helper()
	l.reaches(int(l.part.Add(1)) * l.jobs / l.parts)
	eventually(l.f.t, "there are jobs under way", func() bool { return l.f.t.Failed() || l.f.in(job.Running) > 0 })
}

// unfinished returns the number of jobs that are not over, or a large number if it is unknown.
func (f *fleet) unfinished() (n int) {
	err := f.db.QueryRow(context.WithoutCancel(f.t.Context()), "SELECT count(*) FROM jobs WHERE state NOT IN ('finished', 'canceled')").Scan(&n)
	if err != nil {
		return 1 << 30
	}
	return n
}

// submit sends jobs from..from+n-1, the first of them one by one.
func (l *load) submit(at, from, n, alone int) error {
	api, ctx := l.f.apis[at], l.f.t.Context()
	for i := range min(alone, n) {
		if _, err := api.Submit(ctx, l.spec(from+i)); err != nil {
			return err
		}
	}
	if n <= alone {
		return nil
	}
	var lines bytes.Buffer
	for i := alone; i < n; i++ {
		if err := json.NewEncoder(&lines).Encode(l.spec(from + i)); err != nil {
			return err
		}
	}
	b, err := api.SubmitBatch(ctx, client.BatchOptions{}, bytes.NewReader(lines.Bytes()))
	if err != nil {
		return err
	}
	l.batches = append(l.batches, b.ID)
	return nil
}

// reaches waits until n jobs are done.
func (l *load) reaches(n int) {
	l.f.t.Helper()
	within(l.f.t, 10*time.Minute, fmt.Sprintf("%d jobs are done", n), func() bool { return l.f.t.Failed() || l.f.in(job.Finished) >= n })
}

// done waits until all jobs are done.
func (l *load) done() {
	l.f.t.Helper()
	l.reaches(l.jobs)
	<-l.over
}

// readBack reads each record of the load with a program of the previous release, also the new
// programs' records.
func (f *fleet) readBack(l *load) {
	f.t.Helper()
	for _, id := range l.batches {
		for raw, err := range f.api.Results(f.t.Context(), id, false) {
			var r job.Result
			if err == nil {
				err = json.Unmarshal(raw, &r)
			}
			if err != nil {
				f.t.Fatal(err)
			}
			if r.Outcome != job.Succeeded {
				f.t.Errorf("job %s: %s %s", r.ID, r.Outcome, r.Message)
			}
			for _, st := range append(r.Steps, job.StepResult{Stdout: r.Stdout}) {
				f.sameOutput(r.ID, st.Stdout)
			}
		}
	}
}

// sameOutput compares a stored output with its description in the result.
func (f *fleet) sameOutput(id job.ID, o job.Output) {
	if o.Stored == nil {
		return
	}
	raw, err := os.ReadFile(filepath.Join(f.objects, o.Stored.Object))
	if sum := sha256.Sum256(raw); err != nil || hex.EncodeToString(sum[:]) != o.Stored.SHA256 {
		f.t.Errorf("job %s: its output is not what its sum says: %d bytes, %v", id, len(raw), err)
	}
}

// wholeOutputs checks that a fleet with only this version stores large outputs beside results.
func (l *load) wholeOutputs() {
	l.f.t.Helper()
	eventually(l.f.t, "large outputs are kept beside results", func() bool {
		r, err := l.f.api.Run(l.f.t.Context(), l.spec(7))
		if err != nil {
			l.f.t.Fatal(err)
		}
		return r.Stdout.Stored != nil && r.Stdout.Stored.Bytes == largeText
	})
}
