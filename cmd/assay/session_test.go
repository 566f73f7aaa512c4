package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// TestSessionCommands lists, shows and closes sessions.
func TestSessionCommands(t *testing.T) {
	t.Parallel()
	s := newServer(t, job.Result{})
	assay := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := s.assay(t.Context(), "", args...)
		if code != 0 {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
		return stdout
	}
	has := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%q lacks %q", text, part)
			}
		}
	}
	live := assay("session", "list")
	has(live, "SESSION", string(someID), "agent\uFFFD", "shell", "live", "python", "w1", "2Gi")
	if strings.Contains(live, string(otherID)) {
		t.Errorf("an ended session without --all: %q", live)
	}
	if code, _, stderr := s.assay(t.Context(), "", "session", "list", "--tenant", "b"); code == 0 || !strings.Contains(stderr, "sessions of other tenants are for operators") {
		t.Errorf("another tenant's: exit %d, %q", code, stderr)
	}
	s.operator = true
	has(assay("session", "list"), "TENANT", "some")
	has(assay("session", "list", "--tenant", "b"), " b ")
	has(assay("session", "list", "--all"), string(someID), string(otherID), "ended, succeeded")
	if lines := strings.Count(assay("--json", "session", "list", "--all", "--limit", "1"), "\n"); lines != 1 {
		t.Errorf("%d lines of JSON, want 1", lines)
	}
	has(assay("session", "show", string(otherID)), "ended, succeeded on w2", "forked from "+string(someID), "closed", "memory ?")

	assay("session", "close", string(someID), string(otherID))
	if want := []string{string(someID), string(otherID)}; !slices.Equal(s.canceled, want) {
		t.Errorf("closed %q, want %q", s.canceled, want)
	}
	s.canceled = nil
	code, _, stderr := s.assay(t.Context(), "", "session", "close", "nope", string(someID))
	if code == 0 || !strings.Contains(stderr, "nope") || len(s.canceled) != 1 {
		t.Errorf("exit %d, %q, closed %q; want the second session closed", code, stderr, s.canceled)
	}
}
