package containerd

import (
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/runtimetest"
)

// warmPython returns a slot in which an interpreter waits.
func warmPython(t *testing.T, r *Runtime) *slot {
	t.Helper()
	key := taskKey
	key.Kind = "python"
	first, err := r.Acquire(t.Context(), key) // the demand
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	eventually(t, "a slot is ready", func() bool { return warmTasks(t, r, "python") > 0 })
	s, err := r.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if s.(*slot).python == nil {
		t.Fatal("no interpreter waits in the slot")
	}
	return s.(*slot)
}

func TestInterpreterWaits(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm = 1 })
	for name, c := range map[string]struct {
		code string
		env  map[string]string
		want string
	}{
		"job": {
			code: "import os, sys, resource\nprint(os.environ['A'], os.getcwd(), sys.stdin.read() == '', resource.getrlimit(resource.RLIMIT_NOFILE), sorted(os.listdir('/proc/self/fd')))",
			env:  map[string]string{"A": "1"}, want: "1 /workspace True (99, 99) ['0', '1', '2', '3', '4']\n",
		},
		"environment": {"import os\nprint(sorted(os.environ))", nil, "['HOME', 'LANG', 'LOGNAME', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'USER']\n"},
		"afresh": { // an interpreter reads this when it starts
			code: "import sys\nprint(sys.flags.optimize)", env: map[string]string{"PYTHONOPTIMIZE": "2"}, want: "2\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := warmPython(t, r)
			p := runtimetest.Plan(t, r.Host(), policy.Task, func(p *policy.Policy) { p.Env.Set, p.OpenFiles = c.env, 99 })
			rep, err := s.Run(t.Context(), runtime.Attempt{Job: job.NewID(), Lease: 1, Program: pySnippet(c.code), Plan: p})
			if err != nil {
				t.Fatal(err)
			}
			if rep.Outcome != job.Succeeded || rep.Stdout.Text != c.want {
				t.Errorf("%s: %q %s, want %q", rep.Outcome, rep.Stdout.Text, rep.Stderr.Text, c.want)
			}
		})
	}
}

// TestInterpreterDies checks that the death of a waiting interpreter costs no job anything.
func TestInterpreterDies(t *testing.T) {
	r := newRuntime(t, func(c *Config) { c.Warm = 1 })
	s := warmPython(t, r)
	if err := s.Group.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the slot is of no more use", func() bool { return !s.alive() })
}
