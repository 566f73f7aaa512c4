package chaos

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// running reports whether a process of this host has a text in its arguments.
func running(text string) bool {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(text)) {
			return true
		}
	}
	return false
}

// TestSessionsAreFenced checks two cases. Sessions of a worker that was paused past its lease end
// as soon as it resumes. Sessions that are recorded as over end with the next heartbeat. No process
// of their programs is left, and the worker drains without waiting for them.
func TestSessionsAreFenced(t *testing.T) {
	t.Parallel()
	s := realFleet(t, plainDir(t), 1)
	f, w := s.fleet, s.workers[0]
	open := func(mark string) job.ID {
		v, err := f.api.CreateSession(t.Context(), job.SessionSpec{Kind: job.SessionShell})
		if err != nil {
			t.Fatal(err)
		}
		e, err := f.api.Execute(t.Context(), v.ID, api.ExecuteRequest{Code: "(while :; do sleep " + mark + "; done) >/dev/null 2>&1 &"})
		if err != nil || e.Outcome != job.Succeeded {
			t.Fatalf("%+v, %v", e, err)
		}
		eventually(t, "its loop runs", func() bool { return running(mark) })
		return v.ID
	}
	live := func() int { return f.count("SELECT count(*) FROM sessions WHERE state = 'live'") }

	open("0.0718281828")
	w.pause()
	paused := time.Now()
	eventually(t, "its lease would be over", func() bool { return time.Since(paused) > f.lease+time.Second })
	w.resume()
	resumed := time.Now()
	eventually(t, "the loop of the session ends", func() bool { return !running("0.0718281828") })
	if took := time.Since(resumed); took > f.lease {
		t.Errorf("the loop ran for %v after the worker went on, longer than a lease of %v", took, f.lease)
	}
	eventually(t, "its end is recorded", func() bool { return live() == 0 })

	lost := open("0.0577215664")
	kept := open("0.0693147180")
	if _, err := f.db.Exec(t.Context(), "UPDATE sessions SET state = 'ended', outcome = 'lost', message = 'its worker is gone', ended_at = now() WHERE id = $1", string(lost)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loop of the lost session ends", func() bool { return !running("0.0577215664") })
	if e, err := f.api.Execute(t.Context(), kept, api.ExecuteRequest{Code: "echo here"}); err != nil || e.Outcome != job.Succeeded || !running("0.0693147180") {
		t.Errorf("the other session: %+v, %v", e, err)
	}
	if _, err := f.api.CloseSession(t.Context(), kept); err != nil {
		t.Error(err)
	}
	began := time.Now()
	w.term(t)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the worker drained for %v", took)
	}
}
