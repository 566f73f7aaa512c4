package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

func someFleet(t *testing.T) (f api.Fleet) {
	t.Helper()
	raw, err := os.ReadFile("../../internal/cli/top/testdata/fleet.json")
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestTopOnce: everything is in the table; what workers call themselves says nothing
// to the terminal.
func TestTopOnce(t *testing.T) {
	s := newServer(t, job.Result{})
	s.fleet = someFleet(t)
	code, out, stderr := s.assay(t.Context(), "", "top", "--once")
	if code != 0 {
		t.Fatal(code, stderr)
	}
	words := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"workers 2 running 20 free 7 cores 1.5 of 4 sessions 6 3.2 jobs/s", "queued 80007 dispatched 3 running 20", "ended succeeded 40 failed 2", "handed back infra 1",
		"w1 default working cell,task 20 7 1.5/4 3.2 6 2s ago", "default draining ? 0 0 ? ? ? 9s ago",
		"default - acme 5 ~80000 3 20 default 1m1s slot", "default label gpu=a100 beta 0 7 0 0 - 0s -",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	if strings.ContainsRune(out, 0x1b) {
		t.Errorf("an escape in %q", out)
	}
	code, out, _ = s.assay(t.Context(), "", "--json", "top")
	var got api.Fleet
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || len(got.Queue) != 2 {
		t.Errorf("%d, %v: %s", code, err, out)
	}
	if code, _, stderr := s.assay(t.Context(), "", "top", "--interval", "10ms"); code != exitOurs || !strings.Contains(stderr, "--interval") {
		t.Errorf("a short interval: %d %s", code, stderr)
	}
}
