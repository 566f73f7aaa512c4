package admit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/admit"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// stored has one policy under every name.
type stored struct {
	nothing
	policy string
}

func (s stored) Policy(context.Context, string, string, int) (json.RawMessage, error) {
	return json.RawMessage(s.policy), nil
}

// restrictedTo admits jobs of a key that is restricted to a policy.
func restrictedTo(t *testing.T, p string) func(raw string) (*job.Spec, error) {
	a := withResultCache(t)
	a.Policies = stored{policy: p}
	return func(raw string) (*job.Spec, error) {
		j, err := a.Job(admit.WithHeld(t.Context(), admit.Held{Policy: "strict"}), "acme", "", []byte(raw))
		if err != nil {
			return nil, err
		}
		s := &job.Spec{}
		return s, json.Unmarshal(j.Spec, s)
	}
}

const helperTests = `"program":{"tests":{"code":"print(1)","stdio":[{"stdout":"1"}],`

// TestRestrictedHelpersAreRefused checks that a key restricted to a policy cannot give a helper more than the policy.
func TestRestrictedHelpersAreRefused(t *testing.T) {
	t.Parallel()
	strict := restrictedTo(t, `{"memory":"48Mi","wall":"5s","syscalls":"strict","subprocesses":false,"processes":4}`)
	roomy := restrictedTo(t, `{"memory":"1Gi","wall":"50s","processes":64}`)
	const python = `"code":{"language":"python","source":"0"}`
	for in, want := range map[string]string{
		helperTests + `"checker":{"memory":"1Gi",` + python + `}}}`:                                        "program.tests.checker.memory",
		helperTests + `"checker":{"wall":"60s",` + python + `}}}`:                                          "program.tests.checker.wall",
		helperTests + `"checker":{"wall":"6s","argv":["true"]}}}`:                                          "program.tests.checker.wall",
		helperTests + `"interactor":{"memory":"49Mi",` + python + `}}}`:                                    "program.tests.interactor.memory",
		helperTests + `"interactor":{"wall":"5001ms",` + python + `}}}`:                                    "program.tests.interactor.wall",
		helperTests + `"checker":{"code":{"language":"c","source":"0","compile":{"memory":"1Gi"}}}}}`:      "program.tests.checker.code.compile.memory",
		helperTests + `"checker":{"code":{"language":"c","source":"0"}}}}`:                                 "program.tests.checker.code.compile.memory",
		helperTests + `"interactor":{"code":{"language":"c","source":"0","compile":{"wall":"6s"}}}}}`:      "program.tests.interactor.code.compile.wall",
		`"program":{"code":{"language":"c","source":"0","compile":{"memory":"1Gi","flags":["-wrapper"]}}}`: "program.code.compile.memory",
		`"program":{"code":{"language":"c","source":"0"}}`:                                                 "program.code.compile.memory",
		`"program":{"code":{"language":"c","source":"0","compile":{"wall":"6s"}}}`:                         "program.code.compile.wall",
		`"program":{"tests":{"language":"c","code":"0","stdio":[{}],"compile":{"memory":"300Mi"}}}`:        "program.tests.compile.memory",
		`"program":{"tests":{"language":"c","code":"0","stdio":[{}],"compile":{"wall":"20s"}}}`:            "program.tests.compile.wall",
		`"program":{"code":{"language":"go","files":{"main.go":"0"},"compile":{"wall":"20s"}}}`:            "program.code.compile.wall",
	} {
		bad := new(job.FieldError)
		if _, err := strict("{" + in + "}"); !errors.Is(err, job.ErrRefused) || !errors.As(err, &bad) || bad.Field != want {
			t.Errorf("%s: %v, want a refusal of %s", in, err, want)
		}
		if _, err := withResultCache(t).Job(t.Context(), "acme", "", []byte("{"+in+"}")); err != nil {
			t.Errorf("%s without a restriction: %v", in, err)
		}
		if _, err := roomy("{" + in + "}"); err != nil && !strings.Contains(want, "wall") {
			t.Errorf("%s under a policy that allows it: %v", in, err)
		}
	}
	alone := restrictedTo(t, `{"memory":"1Gi","wall":"50s","subprocesses":false}`)
	if _, err := alone(`{"program":{"code":{"language":"c","source":"0"}}}`); !errors.Is(err, job.ErrRefused) || !strings.Contains(err.Error(), "policy.subprocesses") {
		t.Errorf("a compiler without subprocesses: %v", err)
	}
}

// TestRestrictedHelpersHaveNoRulesForImports checks that helpers are rejected under a policy with import rules, since
// their imports are not checked.
func TestRestrictedHelpersHaveNoRulesForImports(t *testing.T) {
	t.Parallel()
	ruled, free := restrictedTo(t, `{"imports":{"deny":["os"]}}`), restrictedTo(t, `{}`)
	for in, field := range map[string]string{
		helperTests + `"checker":{"code":{"language":"python","source":"0"}}}}`:               "program.tests.checker",
		helperTests + `"interactor":{"argv":["python3","-c","import os"]}}}`:                  "program.tests.interactor",
		`"program":{"tests":{"code":"f=1","function":"f","check":"def check(f): import os"}}`: "program.tests.check",
		`"program":{"code":{"language":"python","source":"import os"}}`:                       "policy.imports",
		`"program":{"command":{"argv":["python3","-c","import os"]}}`:                         "policy.imports",
		`"program":{"tests":{"code":"","stdio":[{"argv":["python3","-c","import os"]}]}}`:     "policy.imports",
	} {
		bad := new(job.FieldError)
		if _, err := ruled("{" + in + "}"); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v, want a refusal of %s", in, err, field)
		}
		if _, err := free("{" + in + "}"); err != nil {
			t.Errorf("%s without rules: %v", in, err)
		}
	}
}

// TestRestrictedHelpersHaveThePolicysLimits checks that a helper without own limits gets the policy's, and that the
// stored policy makes the worker enforce them.
func TestRestrictedHelpersHaveThePolicysLimits(t *testing.T) {
	t.Parallel()
	strict := restrictedTo(t, `{"memory":"48Mi","wall":"5s"}`)
	for _, helper := range []string{"checker", "interactor"} {
		s, err := strict("{" + helperTests + `"` + helper + `":{"code":{"language":"python","source":"0"}}}}}`)
		if err != nil {
			t.Fatal(err)
		}
		k := s.Program.Tests.Checker
		if helper == "interactor" {
			k = s.Program.Tests.Interactor
		}
		if k.Memory != 48*job.MiB || k.Wall.D().Seconds() != 5 {
			t.Errorf("%s: %+v", helper, k)
		}
		var p policy.Policy
		if err := json.Unmarshal(s.Policy, &p); err != nil || !p.RestrictHelpers {
			t.Errorf("%s: the policy restricts no helpers: %s, %v", helper, s.Policy, err)
		}
	}
	roomy := restrictedTo(t, `{"memory":"300Mi","wall":"7s"}`)
	s, err := roomy(`{"program":{"code":{"language":"c","source":"0"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Program.Code.Compile; c.Memory > 300*job.MiB || c.Wall.D().Seconds() > 7 {
		t.Errorf("compiled with %+v", c)
	}
	if p := admitted(t, `{"policy":{"restrict_helpers":true},"program":{"python":{"code":"0"}}}`).Policy; bytes.Contains(p, []byte("restrict_helpers")) {
		t.Errorf("a client restricts helpers: %s", p)
	}
}

// TestCacheKeysOfLabels checks that a key restricted to a label gets only cached results with its label.
func TestCacheKeysOfLabels(t *testing.T) {
	t.Parallel()
	a := withResultCache(t)
	key := func(h admit.Held) string {
		j, err := a.Job(admit.WithHeld(t.Context(), h), "acme", "", []byte(`{"cache":true,"program":{"python":{"code":"0"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		return string(j.CacheKey)
	}
	seven := key(admit.Held{Key: "run", Value: "7"})
	if seven != key(admit.Held{Key: "run", Value: "7"}) {
		t.Error("one label has two keys")
	}
	for name, h := range map[string]admit.Held{"another value": {Key: "run", Value: "8"}, "another key": {Key: "r", Value: "7"}, "none": {}, "split elsewhere": {Key: "run=7"}} {
		if key(h) == seven {
			t.Errorf("%s has the same key", name)
		}
	}
}
