package conformance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// sessions checks the limits of executes, and their scope.
func (f *fleet) sessions(t *testing.T) {
	for name, story := range map[string]func(*testing.T, *fleet){
		"CPU time is no wall": cpuTimeIsNoWall, "CPU time in the background": cpuTimeBehind, "flood beside python": floodBeside,
		"death of a part": deathOfAPart, "limits of those that went before": limitsAreOver,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, f)
		})
	}
}

func (f *fleet) session(t *testing.T, kind job.SessionKind, l limits) *job.Session {
	t.Helper()
	s, err := f.api.CreateSession(t.Context(), job.SessionSpec{Kind: kind, Policy: written(t, "cell", l), Lease: job.Duration(5 * time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = f.api.CloseSession(t.Context(), s.ID) }) // it may have ended
	return s
}

func (f *fleet) execute(t *testing.T, s *job.Session, want job.Outcome, rq api.ExecuteRequest) *job.Execute {
	t.Helper()
	e, err := f.api.Execute(t.Context(), s.ID, rq)
	if err != nil {
		t.Fatal(err)
	}
	if e.Outcome != want {
		t.Fatalf("%q: outcome %s (%s), want %s", rq.Code+rq.Command, e.Outcome, e.Message, want)
	}
	return e
}

// On 490fff9 an execution could sleep for the CPU time divided by the cores, here 500 ms. The
// record then reported a longer time than that limit.
func cpuTimeIsNoWall(t *testing.T, f *fleet) {
	s := f.session(t, job.SessionPython, limits{"cpu": 2, "cpu_time": "1s", "wall": "2m"})
	f.execute(t, s, job.Succeeded, api.ExecuteRequest{Code: "import time\ntime.sleep(2)"})
}

// A thread that computes while nothing is executed ends its session.
func cpuTimeBehind(t *testing.T, f *fleet) {
	s := f.session(t, job.SessionPython, limits{"cpu_time": "500ms"})
	f.execute(t, s, job.Succeeded, api.ExecuteRequest{Code: "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()"})
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		now, err := f.api.Session(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now.State == job.SessionEnded {
			if now.Outcome != job.TimedOut || !strings.Contains(now.Message, "CPU time") {
				t.Errorf("ended as %s: %s", now.Outcome, now.Message)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it computes for ever")
		}
	}
}

// Output of programs other than python counts at once, and not only at the end of the execute.
func floodBeside(t *testing.T, f *fleet) {
	kill := limits{"limit": "4Ki", "on_exceed": "kill"}
	s := f.session(t, job.SessionShell, limits{"wall": "10m", "stdout": kill, "stderr": kill})
	for stream, command := range map[string]string{"stdout": "seq 10000; sleep 500", "stderr": "seq 10000 >&2; sleep 500"} {
		e := f.execute(t, s, job.OutputLimit, api.ExecuteRequest{Code: command})
		if !e.Alive || !strings.Contains(e.Message, "4Ki to "+stream) {
			t.Errorf("%s: alive %v, %s", stream, e.Alive, e.Message)
		}
	}
	f.execute(t, s, job.Succeeded, api.ExecuteRequest{Code: "echo fine"})
}

// If the kernel kills a part of a session for its memory, the rest ends as well. The execute
// reports that, although its script went on: as in a job.
func deathOfAPart(t *testing.T, f *fleet) {
	s := f.session(t, job.SessionShell, limits{"memory": "96Mi"})
	e := f.execute(t, s, job.OutOfMemory, api.ExecuteRequest{Code: "python3 -c 'x = bytearray(500 << 20)'; true"})
	if e.Alive {
		t.Error("it lives on")
	}
	if _, err := f.api.Execute(t.Context(), s.ID, api.ExecuteRequest{Code: "true"}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("afterwards: %v", err)
	}
}

// Each execution has the full limits.
func limitsAreOver(t *testing.T, f *fleet) {
	s := f.session(t, job.SessionPython, limits{"wall": "2m", "cpu_time": "1s", "stdout": limits{"limit": "4Ki", "on_exceed": "kill"}})
	f.execute(t, s, job.Succeeded, api.ExecuteRequest{Code: "x = 7"})
	for range 2 {
		f.execute(t, s, job.TimedOut, api.ExecuteRequest{Code: "while True: pass"})
		f.execute(t, s, job.OutputLimit, api.ExecuteRequest{Code: "print('y' * 5000)"})
		f.execute(t, s, job.Succeeded, api.ExecuteRequest{Code: "print('y' * 4000)"})
	}
	if e := f.execute(t, s, job.Succeeded, api.ExecuteRequest{Code: "x"}); e.Value == nil || e.Value.Repr != "7" {
		t.Errorf("x is %+v", e.Value)
	}
}
