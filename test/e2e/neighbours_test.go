package e2e

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/test/hostile"
)

// `make neighbours` runs more of both.
var (
	neighbourPart     = testenv.NewPart("neighbours", 6)
	neighbourJobs     = flag.Int("neighbours.jobs", 15, "innocent jobs beside the hostile corpus, at least")
	neighbourPrograms = flag.Int("neighbours.programs", 5, "programs of the hostile corpus that run in a loop beside them")
)

// neighbourLanes is the number of concurrent jobs of either side.
const neighbourLanes = 4

// TestNeighbours runs innocent jobs of every kind beside programs of the hostile corpus, in a loop,
// on one worker. The innocent jobs are of the attacker's own tenant, whose cell they share, and of
// another tenant. In both cases every outcome is right, every job has one attempt, and the worker
// never rests.
func TestNeighbours(t *testing.T) {
	// A lease that ends because the machine is busy would be another attempt. The attacks on egress
	// need the default setting.
	f := start(t, "ASSAY_TOKENS=of-attacker=attacker,of-innocent=innocent", "ASSAY_LEASE_TTL=30s", "ASSAY_EGRESS_PRIVATE=", "ASSAY_CPU=8")
	corpus, err := hostile.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	corpus = testenv.Of(t, neighbourPart, corpus)
	attacker, innocent := f.as(t, "of-attacker"), f.as(t, "of-innocent")
	turns := []struct {
		name, level string
		victim      *client.Client
	}{
		{"one tenant, cell", "cell", attacker}, {"one tenant, task", "task", attacker},
		{"two tenants, cell", "cell", innocent}, {"two tenants, task", "task", innocent},
	}
	for i, turn := range turns {
		t.Run(turn.name, func(t *testing.T) {
			a := newAttackers(t, f, attacker, turn.level, part(corpus, *neighbourPrograms, i, len(turns)))
			a.theirs = turn.victim == attacker
			beside(t, f, a, turn.victim)
		})
	}
}

// as returns a client with a token.
func (f *fleet) as(t *testing.T, token string) *client.Client {
	t.Helper()
	c, err := client.New(f.URL(), client.WithToken(token))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// beside runs the innocent jobs while the attackers run each of their programs at least once.
func beside(t *testing.T, f *fleet, a *attackers, api *client.Client) {
	began := time.Now()
	ended := a.attack(t)
	awake := f.awake(t)
	jobs := innocentJobs(t, a.level)
	var victims sync.WaitGroup
	var ran atomic.Int64
	for range neighbourLanes {
		victims.Go(func() {
			for {
				i := int(ran.Add(1)) - 1
				if i >= *neighbourJobs && a.once() || t.Context().Err() != nil {
					ran.Add(-1)
					return
				}
				c := jobs[i%len(jobs)]
				r, err := api.Run(t.Context(), c.spec)
				if err != nil || r.Outcome != c.want || r.Stdout.Text != c.says || len(r.Attempts) != 1 {
					t.Errorf("innocent job %s: %s; %v; want %s in one attempt, and %q", c.name, seen(r), err, c.want, c.says)
				}
			}
		})
	}
	victims.Wait()
	a.stop()
	ended()
	awake()
	t.Logf("%d innocent jobs beside %d attacks (%d programs) in %v", ran.Load(), a.ran.Load(), len(a.corpus), time.Since(began).Round(time.Second))
}

// seen formats a result for messages.
func seen(r *job.Result) string {
	if r == nil {
		return "no result"
	}
	return fmt.Sprintf("%s %s %s (%s) %q, %.2000q, %.2000q, exception %+v, attempts %+v", r.ID, r.Outcome, r.Signal, r.Message, r.Feedback,
		r.Stdout.Text, r.Stderr.Text, r.Exception, r.Attempts)
}

// innocentJob is a job, its outcome and its output.
type innocentJob struct {
	name string
	spec job.Spec
	want job.Outcome
	says string
}

// innocentJobs returns jobs of every kind. Their times are long: slowness is no fault here.
func innocentJobs(t *testing.T, level string) (jobs []innocentJob) {
	const right = "def f(x): return x * 2\nif __name__ == '__main__': print(f(int(input())))"
	// It finds its environment as if it were alone.
	const surroundings = `
import os, socket
odd = [f for d in ("/tmp", "/workspace", "/dev/shm") for f in os.listdir(d)]
odd += [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
odd += [n for n in os.environ if n not in ("PATH", "HOME", "LANG", "USER", "LOGNAME", "PYTHONDONTWRITEBYTECODE")]
odd += [n for _, n in socket.if_nameindex() if n != "lo"]
print(6 * 7, odd)`
	for _, j := range []struct {
		name   string
		p      job.Program
		want   job.Outcome
		says   string
		policy limits
	}{
		{name: "python", p: python("print(6 * 7)"), want: job.Succeeded, says: "42\n"},
		{name: "exception", p: python("1 / 0"), want: job.Exception},
		{name: "command", p: shell("echo hello; exit 3"), want: job.Failed, says: "hello\n"},
		{name: "solution", p: graded(right), want: job.Succeeded, says: "8\n"},
		{name: "wrong solution", p: graded("def f(x): return x"), want: job.Failed},
		{name: "surroundings", p: python(surroundings), want: job.Succeeded, says: "42 []\n"},
		{name: "resources", p: python(hostile.Neighbour), want: job.Succeeded, says: "round\n", policy: limits{"env": limits{"set": map[string]string{"ROUNDS": "3"}}}},
	} {
		policy := limits{"wall": "5m", "cpu_time": "5m"}
		for k, v := range j.policy {
			policy[k] = v
		}
		jobs = append(jobs, innocentJob{name: j.name, spec: spec(t, j.p, level, policy, ""), want: j.want, says: j.says})
	}
	return jobs
}

// awake checks, until the returned function is called, that the worker takes jobs.
func (f *fleet) awake(t *testing.T) (end func()) {
	api := f.as(t, f.OperatorToken())
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		for ; ctx.Err() == nil; wait(ctx, 200*time.Millisecond) {
			ws, err := api.Workers(ctx)
			if ctx.Err() == nil && (err != nil || len(ws) != 1 || ws[0].Quarantine != nil || ws[0].Held != "") {
				t.Errorf("the worker rests: %+v, %v", ws, err)
			}
		}
	})
	return func() {
		cancel()
		watch.Wait()
		for _, rests := range []string{"circuit breaker open", "in quarantine", "attempt handed back", "attempt abandoned"} {
			if f.said(t, rests) {
				t.Errorf("a program says %q", rests)
			}
		}
	}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// part returns n programs of a corpus, others in each turn: some attacks on verdicts, which concern
// the innocent jobs, and some of all others.
func part(corpus []*hostile.Attack, n, turn, turns int) (some []*hostile.Attack) {
	if n >= len(corpus) {
		return corpus
	}
	verdicts := func(a *hostile.Attack) bool { return a.Subject == "verdicts" }
	others := slices.DeleteFunc(slices.Clone(corpus), verdicts)
	for i, a := range slices.DeleteFunc(slices.Clone(corpus), func(a *hostile.Attack) bool { return !verdicts(a) }) {
		if i%turns == turn && len(some) < n {
			some = append(some, a)
		}
	}
	left := min(n-len(some), len(others))
	for i := range left {
		some = append(some, others[(i*turns+turn)*len(others)/(left*turns)])
	}
	return some
}
