package runtimetest

import (
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// secrets returns programs that print their secrets.
func secrets() []program {
	told := map[string]string{"TOKEN": "hunter2-and-more"}
	names := func(p *policy.Policy) { p.Env.Secrets = map[string]string{"TOKEN": "pypi"} }
	return []program{
		{name: "secret", outcome: job.Succeeded, edit: names, secrets: told,
			run: py("import os; t = os.environ['TOKEN']; print(len(t), t[:8], t[8:]); print(t)"), check: stdoutIs("16 hunter2- and-more\n***\n")},
		{name: "secret of a command", outcome: job.Succeeded, edit: names, secrets: told,
			run: sh(`printf hunter2-; sleep 0.2; printf 'and-more\n'; echo "$TOKEN" >&2; test ${#TOKEN} = 16`), check: func(t *testing.T, r *ran) {
				stdoutIs("***\n")(t, r)
				if r.Stderr.Text != "***\n" {
					t.Errorf("stderr = %q", r.Stderr.Text)
				}
			}},
		{name: "secret where output is cut", outcome: job.Succeeded, secrets: told,
			run:  sh(`for i in 1 2 3 4 5 6 7 8 9; do echo "$TOKEN$TOKEN$TOKEN"; done`),
			edit: func(p *policy.Policy) { names(p); p.Stdout.Limit = 50 },
			check: func(t *testing.T, r *ran) {
				for n := 3; n < 16; n++ {
					if strings.Contains(r.Stdout.Text, told["TOKEN"][:n]) || strings.Contains(r.Stdout.Text, told["TOKEN"][16-n:]) {
						t.Fatalf("a part of the secret is in %q", r.Stdout.Text)
					}
				}
			}},
		{name: "secret not asked for", outcome: job.Succeeded, run: sh("env"), check: func(t *testing.T, r *ran) {
			if strings.Contains(r.Stdout.Text, "TOKEN") {
				t.Errorf("the environment is %q", r.Stdout.Text)
			}
		}},
	}
}
