//go:build load

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// `make bystanders` has all of them.
var bystanderPart = testenv.NewPart("bystanders", 6)

// How a bystander is measured.
const (
	idleTime   = 2 * time.Second
	attackTime = 4 * time.Second
	slowdown   = 3 // the p95 beside an attack may be so many times the idle one
	rounds     = 4 // the slowdown must hold in one of them: other processes of this machine slow a round down as well
)

// intrusion is a job by which a tenant has a worker do much for little. Two tenants run it in a loop.
type intrusion struct {
	name    string
	program job.Program
	policy  limits
}

// small makes an interpreter's CPU time small, however long it runs.
const small = `
import os, socket, threading, time
def trickle(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        until = time.thread_time() + 0.001
        while time.thread_time() < until: pass
        time.sleep(0.05)
def netlink(n):
    keep = []
    try:
        for _ in range(n):
            keep.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
            keep[-1].bind((0, 0))
    except OSError: pass
    return keep
`

// floodFrames is a solution that sends the worker frames which answer nothing.
const floodFrames = `
import os, struct
def f(x):
    body = b'{"op":"x","id":0,"value":[' + b"[]," * %d + b"[]]}"
    try:
        for _ in range(100000): os.write(5, struct.pack(">I", len(body)) + body)
    except OSError: pass
`

// connects asks the proxy of the sandbox for connections that it refuses.
const connects = `
import urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
end = time.monotonic() + 5
while time.monotonic() < end:
    with socket.create_connection((proxy.hostname, proxy.port)) as s:
        s.sendall(b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n")
        s.recv(1000)
`

// intrusions are by what they make dear: refusals, outputs, clocks, artifacts, looks and frames.
func intrusions() []intrusion {
	huge, wide := limits{"wall": "60s", "memory": "1Gi", "processes": 3000, "open_files": 4096}, "for i in range(20000): open('/workspace/%05d' % i + 'a' * 100, 'w').close()"
	var globs []string
	for i := range 32 {
		globs = append(globs, fmt.Sprintf("/workspace/**/*a*a*a*a*a*a*b%d/**/x", i))
	}
	collects := func(paths ...string) limits {
		return limits{"wall": "60s", "memory": "512Mi", "disk": "256Mi", "files": 30_000, "artifacts": limits{"paths": paths, "max_files": 10_000}}
	}
	slow := func(clocks string) job.Program {
		t := &job.Tests{Function: "f", Code: "import os, sys, time\n_cpu = time.process_time\ndef f(x):\n    end = _cpu() + 2\n    while _cpu() < end: pass\n    return x\n" + clocks}
		for range 8 {
			t.Cases = append(t.Cases, job.Case{Args: []json.RawMessage{[]byte("1")}, Expected: []byte("1"), Wall: job.Duration(300 * time.Millisecond)})
		}
		return job.Program{Tests: t}
	}
	floods := func(n int) job.Program {
		t := &job.Tests{Function: "f", Code: fmt.Sprintf(floodFrames, n)}
		for range 8 {
			t.Cases = append(t.Cases, job.Case{Args: []json.RawMessage{[]byte("1")}, Expected: []byte("2"), Wall: job.Duration(3 * time.Second)})
		}
		return job.Program{Tests: t}
	}
	return []intrusion{
		{"ordinary jobs", python("1"), nil}, // for comparison
		{"a loop", python("while True: pass"), limits{"wall": "20s"}},
		{"a place that is a file", python("1"), limits{"write": []string{"/etc/passwd"}}},
		{"a place below a file", python("1"), limits{"read": []string{"/usr/bin/env/x"}}},
		{"a program that is not there", job.Program{Command: &job.Command{Argv: []string{"/no/such/program"}}}, nil},
		{"outputs of steps", steps(16, fmt.Sprintf(loud, 16)), loudPolicy},
		{"outputs of a command", shell(fmt.Sprintf(loud, 16)), loudPolicy},
		{"values that fail", manyCases(500), limits{"memory": "256Mi", "wall": "20s"}},
		{"a clock that stands", slow("time.monotonic = lambda: 0.0\n"), limits{"wall": "30s"}},
		{"children that are not killed", slow("os.kill = os.killpg = lambda *a: None\n"), limits{"wall": "30s"}},
		{"globs of directories", python(wide), collects(globs...)},
		{"globs of names", python(wide), collects("/**/" + strings.Repeat("[!b]*", 100))},
		{"many artifacts", python(wide), collects("/workspace/*")},
		{"threads", python(small + "threading.stack_size(65536)\nfor _ in range(2500): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\ntrickle(5)"), huge},
		{"processes", python(small + "for _ in range(400):\n    if os.fork() == 0: time.sleep(60)\ntrickle(5)"), huge},
		{"netlink sockets", python(small + "keep = netlink(900)\ntrickle(5)"), huge},
		{"netlink sockets of processes", python(small + "for _ in range(25):\n    if os.fork() == 0:\n        keep = netlink(4000)\n        time.sleep(60)\ntrickle(5)"), huge},
		{"large frames", floods(600_000), limits{"wall": "30s", "memory": "512Mi"}},
		{"small frames", floods(0), limits{"wall": "30s", "memory": "512Mi"}},
		{"refused connections", python(small + connects), limits{"wall": "30s", "network": limits{"mode": "open"}}},
	}
}

// TestBystanders holds that a tenant's small jobs hardly wait longer while two other tenants attack the worker: their p95 is at
// most three times the idle one, which is measured just before.
func TestBystanders(t *testing.T) {
	f := start(t, "ASSAY_TOKENS=one=mallory,two=mallet,of-innocent=innocent", "ASSAY_LEASE_TTL=30s", "ASSAY_CPU=8")
	innocent := f.as(t, "of-innocent")
	bystand(t, innocent, time.Second) // warm
	for _, in := range testenv.Of(t, bystanderPart, intrusions()) {
		t.Run(strings.ReplaceAll(in.name, " ", "-"), func(t *testing.T) {
			least := 0.0
			for round := range rounds {
				idle := bystand(t, innocent, idleTime)
				ran, end := intrude(t, in, f.as(t, "one"), f.as(t, "two"))
				beside := bystand(t, innocent, attackTime)
				end()
				ratio := float64(beside) / float64(idle)
				t.Logf("p95 %v idle, %v beside %d attacks: %.2f", idle.Round(100*time.Microsecond), beside.Round(100*time.Microsecond), ran.Load(), ratio)
				if round == 0 || ratio < least {
					least = ratio
				}
				if ratio <= slowdown {
					return
				}
			}
			t.Errorf("the bystander's p95 is %.1f times the idle one at least, want %d at most", least, slowdown)
		})
	}
}

// bystand runs small jobs for a while, and returns the p95 of how long they take.
func bystand(t *testing.T, c *client.Client, d time.Duration) time.Duration {
	t.Helper()
	var took []time.Duration
	for begin := time.Now(); time.Since(begin) < d; {
		began := time.Now()
		r, err := c.Run(t.Context(), job.Spec{Program: python("print(1)")})
		if err != nil || r.Outcome != job.Succeeded || len(r.Attempts) != 1 {
			t.Fatalf("a job of the bystander: %s, %v", seen(r), err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)*95/100]
}

// intrude has each client run an attack again and again until end is called. It returns when one of them runs.
func intrude(t *testing.T, in intrusion, clients ...*client.Client) (ran *atomic.Int64, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var lanes sync.WaitGroup
	ran = &atomic.Int64{}
	begun := make(chan struct{}, 1)
	mark := map[string]string{"attack": string(job.NewID())}
	for _, c := range clients {
		lanes.Go(func() {
			s := spec(t, in.program, "cell", in.policy, "")
			s.Labels = mark
			for ctx.Err() == nil {
				a, err := c.Submit(ctx, s)
				if err == nil {
					ran.Add(1)
					for j := (&job.Job{}); err == nil && !j.State.Terminal(); {
						if j, err = c.Job(ctx, a.ID, time.Second); err == nil && j.State != job.Queued {
							select {
							case begun <- struct{}{}:
							default:
							}
						}
					}
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", in.name, err)
					return
				}
			}
		})
	}
	testenv.Receive(t, "an attack that runs", begun)
	return ran, func() {
		cancel()
		lanes.Wait()
		for _, c := range clients {
			if _, err := c.CancelLabeled(t.Context(), mark); err != nil {
				t.Error(err)
			}
			eventually(t, "no attack runs", func() bool {
				for j, err := range c.Jobs(t.Context(), client.JobFilter{Labels: mark}) {
					if err != nil || !j.State.Terminal() {
						return false
					}
				}
				return true
			})
		}
	}
}
