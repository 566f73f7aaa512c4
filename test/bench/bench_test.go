package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/policy"
)

func TestPercentile(t *testing.T) {
	ms := []float64{5, 1, 3, 2, 4}
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{{ms, 0.5, 3}, {ms, 0.99, 5}, {ms, 0.01, 1}, {ms[:1], 0.5, 5}, {nil, 0.5, 0}} {
		if got := percentile(c.values, c.q); got != c.want {
			t.Errorf("percentile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
	if ms[0] != 5 {
		t.Error("percentile sorted its argument")
	}
}

func TestReport(t *testing.T) {
	o := outcome{jobs: 100, errors: 2, took: 4 * time.Second}
	o.add(outcome{jobs: 50, took: time.Second})
	r := o.report([]float64{1, 2, 3})
	for field, want := range map[string]any{"jobs": 150, "errors": 2, "seconds": 5.0, "jobs_per_s": 30.0, "p50_ms": 2.0, "p99_ms": 3.0} {
		if r[field] != want {
			t.Errorf("%s = %v, want %v", field, r[field], want)
		}
	}
}

func TestLines(t *testing.T) {
	body, err := lines(pythonJob(policy.Task), 3)
	if err != nil || strings.Count(string(body), "\n") != 3 || !strings.Contains(string(body), `"isolation":"task"`) {
		t.Errorf("lines = %s, %v", body, err)
	}
}

func TestProcessesBelow(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "sleep 60 & wait") // a child and a grandchild
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() {
		all, _ := processes()
		for _, p := range below(all, cmd.Process.Pid) {
			if q, err := os.FindProcess(p.pid); err == nil {
				_ = q.Kill()
			}
		}
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		all, err := processes()
		if err != nil {
			t.Fatal(err)
		}
		family := below(all, cmd.Process.Pid)
		if len(family) == 2 && family[1].args[0] == "sleep" && family[1].parent == cmd.Process.Pid {
			if left := below(all, cmd.Process.Pid, family[1].pid); len(left) != 1 {
				t.Errorf("without the child: %+v", left)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("family = %+v", family)
		}
	}
}

func TestOwnProcess(t *testing.T) {
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	me := all[os.Getpid()]
	if me.parent != os.Getppid() || len(me.args) == 0 {
		t.Errorf("me = %+v", me)
	}
	if kb, err := me.kilobytes("status", "VmHWM"); err != nil || kb < 1000 {
		t.Errorf("VmHWM = %d, %v", kb, err)
	}
	if _, err := me.kilobytes("status", "VmNothing"); err == nil {
		t.Error("a field that does not exist was found")
	}
	if v, err := me.env("PATH"); err != nil || v == "" {
		t.Errorf("PATH = %q, %v", v, err)
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"-scenario", "nothing"}, {"-scenario=noop", "-n", "-3"}, {"-scenario=noop", "-duration", "0s"}, {"-what"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
