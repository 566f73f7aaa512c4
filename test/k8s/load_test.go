//go:build cluster

package k8s

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// load submits jobs while the fleet changes.
type load struct {
	f       *fleet
	name    string
	reasons []job.Reason // for which a job may run again
	width   atomic.Int32 // of a batch
	pool    atomic.Value // a string: the pool that every third job names; the others name none

	mu      sync.Mutex
	jobs    int
	again   map[job.Reason]int
	workers map[string]bool // workers that finished a job
}

// lanes is the number of concurrent batches.
const lanes = 2

// during submits jobs while act runs, and then the rest of the act's share. Each must be recorded
// once with its outcome, and have run again only for these reasons.
func (f *fleet) during(name string, reasons []job.Reason, act func(*load)) {
	f.t.Helper()
	if !regexp.MustCompile(*actsFlag).MatchString(name) {
		f.t.Logf("%s: not played", name)
		return
	}
	start := time.Now()
	l := &load{f: f, name: name, reasons: reasons, again: map[job.Reason]int{}, workers: map[string]bool{}}
	l.width.Store(40)
	l.pool.Store("")
	ctx, cancel := context.WithCancel(f.t.Context())
	var over atomic.Bool
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel() // the act failed
	for lane := range lanes {
		running.Go(func() {
			for i := 0; !over.Load() || l.done() < *jobsFlag/acts; i++ {
				if ctx.Err() != nil || !l.batch(ctx, fmt.Sprintf("%s %d/%d", name, lane, i)) {
					return
				}
			}
		})
	}
	act(l)
	over.Store(true)
	running.Wait()
	f.t.Logf("%s: %d jobs in %v, each recorded once; ran again: %v; on %d workers", name, l.jobs, time.Since(start).Round(time.Second), l.again, len(l.workers))
}

func (l *load) done() int { l.mu.Lock(); defer l.mu.Unlock(); return l.jobs }

// workersSince returns how many of the pods have finished a job.
func (l *load) workersSince(pods []string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pod := range pods {
		for w := range l.workers {
			if strings.HasPrefix(w, pod) {
				n++
				break
			}
		}
	}
	return n
}

// batch runs some jobs, one of each kind and more of the ordinary one, and reports whether all was
// well.
func (l *load) batch(ctx context.Context, name string) bool {
	asked, pool := map[string]kind{}, l.pool.Load().(string)
	b, err := l.f.client.SubmitSpecs(ctx, client.BatchOptions{Name: name}, func(yield func(job.Spec) bool) {
		for i := range int(l.width.Load()) {
			k := theKinds[i%len(theKinds)]
			if i%3 == 1 {
				k.pool = pool
			}
			s := k.spec(fmt.Sprint(i), levelOf(i))
			if asked[s.Name] = k; !yield(s) {
				return
			}
		}
	})
	if err != nil {
		return l.failed(ctx, "%s: %v", name, err)
	}
	ok, seen := true, map[string]bool{}
	for raw, err := range l.f.client.Results(ctx, b.ID, true) {
		if err != nil {
			return l.failed(ctx, "%s: %v", name, err)
		}
		var r job.Result
		if err := json.Unmarshal(raw, &r); err != nil {
			return l.failed(ctx, "%s: %v", name, err)
		}
		if seen[r.Name] {
			ok = l.failed(ctx, "%s: job %s is recorded twice", name, r.Name)
		}
		seen[r.Name] = true
		ok = l.record(ctx, name, asked[r.Name], &r) && ok
	}
	if len(seen) != len(asked) {
		ok = l.failed(ctx, "%s: %d of %d jobs have a result", name, len(seen), len(asked))
	}
	return ok
}

// record counts a result and reports its faults.
func (l *load) record(ctx context.Context, batch string, k kind, r *job.Result) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs++
	ok := true
	if r.Outcome != k.outcome || k.outcome == job.Succeeded && strings.TrimSpace(r.Stdout.Text) != r.Name {
		ok = l.failed(ctx, "%s: job %s: %s, %q, want %s: %s", batch, r.Name, r.Outcome, r.Stdout.Text, k.outcome, r.Message)
	}
	for i, a := range r.Attempts {
		if home := "fleet-assay-worker-" + cmp.Or(k.pool, "default") + "-"; !strings.HasPrefix(a.Worker, home) {
			ok = l.failed(ctx, "%s: job %s of pool %q ran on %s", batch, r.Name, k.pool, a.Worker)
		}
		if l.workers[a.Worker] = true; i == len(r.Attempts)-1 {
			break
		}
		if l.again[a.Reason]++; !slices.Contains(l.reasons, a.Reason) {
			ok = l.failed(ctx, "%s: job %s ran again, as attempt %d ended so: %+v", batch, r.Name, i, a)
		}
	}
	return ok
}

// failed reports an error, unless the act was canceled. It returns false.
func (l *load) failed(ctx context.Context, format string, args ...any) bool {
	if ctx.Err() == nil {
		l.f.t.Errorf(format, args...)
	}
	return false
}

// kind is a kind of jobs.
type kind struct {
	outcome job.Outcome
	program func(name string) job.Program
	policy  string // more fields
	pool    string
}

func python(code string) job.Program { return job.Program{Python: &job.Python{Code: code}} }

// ordinary prints its name, and takes long enough to be under way during a change.
var ordinary = kind{job.Succeeded, func(name string) job.Program {
	return python(fmt.Sprintf("import time; time.sleep(0.5); print(%s)", name))
}, "", ""}

var theKinds = []kind{
	ordinary, ordinary, ordinary, ordinary, ordinary, ordinary,
	{job.Exception, func(name string) job.Program { return python("raise ValueError(" + name + ")") }, "", ""},
	ordinary, ordinary, ordinary, ordinary,
	{job.Failed, func(string) job.Program {
		return job.Program{Command: &job.Command{Argv: []string{"sh", "-c", "exit 3"}}}
	}, "", ""},
	ordinary, ordinary, ordinary, ordinary, ordinary,
	{job.TimedOut, func(string) job.Program { return python("import time; time.sleep(600)") }, `, "wall": "1s"`, ""},
	ordinary, ordinary,
	{job.OutOfMemory, func(string) job.Program { return python("x = bytearray(500 << 20)") }, `, "memory": "64Mi"`, ""},
}

// levelOf returns the isolation of a batch's i-th job: one in eight has each level besides the
// first.
func levelOf(i int) string {
	levels := strings.Split(*levelsFlag, ",")
	if at := 1 + i%8; at < len(levels) {
		return levels[at]
	}
	return levels[0]
}

func (k kind) spec(name, level string) job.Spec {
	policy := `{"wall": "2m", "isolation": "` + level + `"}`
	if k.policy != "" {
		policy = `{"isolation": "` + level + `"` + k.policy + `}`
	}
	return job.Spec{Name: name, Pool: k.pool, Program: k.program(name), Policy: json.RawMessage(policy)}
}
