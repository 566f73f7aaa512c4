package worker

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
)

func needsSecret(s *job.Spec) {
	s.Policy = json.RawMessage(`{"enforce":"report","env":{"secrets":{"TOKEN":"pypi"}}}`)
}

// Secrets in a program's output are masked in the record, even if the runtime misses them.
func TestSecretsAreMasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.secrets = control.Secrets{"TOKEN": "hunter2-and-more"}
		b := start(t, f)
		id := b.submit(t, with(script(`output="it is hunter2-and-more\n"`), needsSecret))
		if res := b.recorded(id); res.Outcome != job.Succeeded || res.Stdout.Text != "it is ***\n" {
			t.Errorf("%s: %q", res.Outcome, res.Stdout.Text)
		}
	})
}

// Secrets in a solution's exceptions and output are masked, too.
func TestWhatSolutionsRaiseIsMasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.secrets = control.Secrets{"TOKEN": "hunter2-and-more"}
		b := start(t, f, func(_ *Config, p *Parts) {
			p.Runtime = leaving{p.Runtime, func(r *job.Result) {
				r.Exception = &job.ExceptionInfo{Type: "E", Message: "it is hunter2-and-more", Traceback: "line 1: hunter2-and-more\n"}
				r.Tests = &job.TestsResult{Cases: []job.CaseResult{{Message: "raised hunter2-and-more", Stderr: "hunter2-and-more"}}}
			}}
		})
		res := b.recorded(b.submit(t, with(script("exit=0"), needsSecret)))
		raw, err := json.Marshal(res)
		if err != nil || strings.Contains(string(raw), "hunter2") || res.Exception.Message != "it is ***" || res.Tests.Cases[0].Stderr != "***" {
			t.Errorf("%s, %v", raw, err)
		}
	})
}

// A secret that was deleted after the job was accepted ends the job before it runs.
func TestSecretIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		f.secrets = control.Secrets{"OTHER": "value"}
		b := start(t, f)
		id := b.submit(t, with(script("exit=0"), needsSecret))
		res := b.recorded(id)
		if res.Outcome != job.SetupError || !strings.Contains(res.Message, "policy.env.secrets.TOKEN") {
			t.Errorf("%s: %s", res.Outcome, res.Message)
		}
		if b.rt.Started() != 0 {
			t.Error("it ran")
		}
	})
}
