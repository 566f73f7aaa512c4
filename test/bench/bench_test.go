package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/policy"
)

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

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"-scenario", "nothing"}, {"-scenario=noop", "-n", "-3"}, {"-scenario=noop", "-duration", "0s"}, {"-what"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestBesideTakesNoCount(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-scenario", "python", "-beside", t.TempDir(), "-n", "3"}, &out, &out); err == nil {
		t.Error("-n was accepted beside -beside")
	}
	if json.Valid(out.Bytes()) {
		t.Errorf("a refusal printed %s", out.String())
	}
}
