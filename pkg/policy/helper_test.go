package policy_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// A policy that restricts helpers is passed by none of their limits; any other leaves them alone.
func TestHelper(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	p.Wall, p.CPUTime, p.CPU = job.Duration(time.Second), job.Duration(2*time.Second), 0.5
	p.Memory, p.Disk, p.Files, p.OpenFiles, p.Processes = 32*job.MiB, job.MiB, 20, 20, 2
	p.Stdout.Limit, p.Stderr.Limit, p.Subprocesses, p.Syscalls = 10, 20, false, "strict"
	p.Stack = job.MiB
	own := policy.Default()
	own.Read = []string{"/case"}
	if got := p.Helper(own, job.KiB); !got.Subprocesses || got.Memory != own.Memory || got.Syscalls != "default" {
		t.Errorf("not restricted: %+v", got)
	}
	p.RestrictHelpers = true
	got := p.Helper(own, job.KiB)
	if got.Wall != p.Wall || got.CPUTime != p.CPUTime || got.CPU != p.CPU || got.Memory != p.Memory || got.Processes != p.Processes ||
		got.Disk != p.Disk+job.KiB || got.Files != p.Files || got.OpenFiles != p.OpenFiles ||
		got.Stdout.Limit != 10 || got.Stderr.Limit != 20 || got.MainStack != job.MiB || got.Subprocesses || got.Syscalls != "strict" || got.Read[0] != "/case" {
		t.Errorf("restricted: %+v", got)
	}
	if roomy := func() policy.Policy { r := policy.Default(); r.RestrictHelpers = true; return r }(); roomy.Helper(got, 0).Syscalls != "strict" || roomy.Helper(got, 0).Memory != got.Memory {
		t.Error("a roomy policy widens a helper's own limits")
	}
}

// Clients cannot set or clear the restriction.
func TestCeilingClearsRestrictHelpers(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse([]byte(`{"restrict_helpers":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if p, err = (policy.Ceiling{}).Apply(p); err != nil || p.RestrictHelpers {
		t.Errorf("%v, %v", p.RestrictHelpers, err)
	}
}

// Each field of a policy is passed on to helpers, or does not concern them.
func TestHelperOfEveryField(t *testing.T) {
	t.Parallel()
	passed := strings.Fields("Wall CPUTime CPU Memory Processes Disk Files OpenFiles Stdout Stderr Stack MainStack Subprocesses Syscalls RestrictHelpers")
	other := map[string]string{
		"Isolation": "is the job's", "Enforce": "is the job's", "Packages": "are the job's or none", "Read": "has the helper's own files", "Write": "is the helper's own scratch",
		"Network": "helpers have none", "Env": "helpers have no secrets", "Imports": "admission refuses helpers beside rules", "Callbacks": "helpers have none",
		"Artifacts": "has what the worker collects of a helper", "Asked": "is for the record",
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policy.Policy]()) {
		if _, known := other[f.Name]; known == slices.Contains(passed, f.Name) {
			t.Errorf("Policy.%s: decide in Policy.Helper whether a restricted helper has it", f.Name)
		}
	}
}
