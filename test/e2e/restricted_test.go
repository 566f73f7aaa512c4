package e2e

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// greedy is python code that uses more memory than 48Mi, starts a process and then accepts.
const greedy = "import os, subprocess, sys\nx = bytearray(100 << 20)\nsubprocess.run(['true'])\nsys.exit(42)\n"

// A key that is restricted to a policy runs no part of a job beyond it.
func TestRestrictedKeys(t *testing.T) {
	f := start(t, "ASSAY_TOKENS=root=team:admin")
	all, err := client.New(f.URL(), client.WithToken("root"))
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]string{
		"strict": `{"memory":"48Mi","wall":"5s","syscalls":"strict","subprocesses":false}`,
		"medium": `{"memory":"300Mi","wall":"5s","subprocesses":false}`,
		"small":  `{"memory":"48Mi","wall":"5s"}`,
	} {
		if err := all.PutPolicy(t.Context(), name, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	under := func(q api.KeyRequest) *client.Client {
		q.Name = "restricted"
		k, err := all.CreateKey(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(f.URL(), client.WithToken(k.Token))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	python := func(source string) *job.Code { return &job.Code{Language: "python", Source: source} }
	graded := func(edit func(*job.Tests)) job.Spec {
		tests := &job.Tests{Code: "print(1)", Stdio: []job.Stdio{{Stdout: "1"}}}
		edit(tests)
		return job.Spec{Program: job.Program{Tests: tests}}
	}
	wrapped := &job.Compile{Memory: job.GiB, Flags: []string{"-wrapper", "python3,-c,print(1)"}}
	for name, spec := range map[string]job.Spec{
		"a checker's memory":     graded(func(x *job.Tests) { x.Checker = &job.Checker{Code: python(greedy), Memory: job.GiB} }),
		"an interactor's memory": graded(func(x *job.Tests) { x.Interactor = &job.Checker{Code: python(greedy), Memory: job.GiB} }),
		"a compiler's memory":    {Program: job.Program{Code: &job.Code{Language: "c", Source: "int main(){}", Compile: wrapped}}},
		"a compiler of a checker": graded(func(x *job.Tests) {
			x.Checker = &job.Checker{Code: &job.Code{Language: "c", Source: "int main(){}", Compile: wrapped}}
		}),
	} {
		if res, err := under(api.KeyRequest{Policy: "strict"}).Run(t.Context(), spec); !errors.Is(err, job.ErrRefused) {
			t.Errorf("%s: %+v, %v, want a refusal", name, res, err)
		}
	}
	// Without limits of their own they are admitted, and the policy limits them.
	for name, edit := range map[string]func(*job.Tests){
		"checker":         func(x *job.Tests) { x.Checker = &job.Checker{Code: python(greedy)} },
		"testlib checker": func(x *job.Tests) { x.Checker = &job.Checker{Code: python(greedy), Protocol: job.Testlib} },
		"interactor":      func(x *job.Tests) { x.Interactor = &job.Checker{Code: python(greedy)} },
		"argv": func(x *job.Tests) {
			x.Checker = &job.Checker{Argv: []string{"python3", "-c", greedy}}
		},
	} {
		for policy, want := range map[string]string{"strict": "", "small": "it needed more memory than its limit of 48Mi", "medium": ""} {
			res, err := under(api.KeyRequest{Policy: policy}).Run(t.Context(), graded(edit))
			if err != nil {
				t.Errorf("%s under %s: %v", name, policy, err)
				continue
			}
			if raw, _ := json.Marshal(res); res.Outcome == job.Succeeded || !strings.Contains(string(raw), want) {
				t.Errorf("%s under %s: %s", name, policy, raw)
			}
		}
	}
	cached := job.Spec{Cache: true, Program: job.Program{Python: &job.Python{Code: "import random; print(random.random())"}}}
	seen := map[string]bool{}
	for _, label := range []string{"run=7", "run=8", ""} {
		c := under(api.KeyRequest{Label: label})
		first, err := c.Run(t.Context(), cached)
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.Run(t.Context(), cached)
		if err != nil {
			t.Fatal(err)
		}
		if seen[first.Stdout.Text] || first.CachedFrom != "" {
			t.Errorf("%q is answered with the result of another label, %s", label, first.CachedFrom)
		}
		if again.Stdout.Text != first.Stdout.Text {
			t.Errorf("%q is not answered from its own result", label)
		}
		seen[first.Stdout.Text] = true
	}
}
