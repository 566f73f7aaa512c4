package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

func TestStepsLowerTheJobsLimits(t *testing.T) {
	t.Parallel()
	parent := Default()
	for _, none := range []string{"", "null", "{}"} {
		if p, err := ParseStep(json.RawMessage(none), parent); err != nil || p.Wall != parent.Wall {
			t.Errorf("%q: %v, %v", none, p.Wall, err)
		}
	}
	p, err := ParseStep(json.RawMessage(`{"wall":"1s","stdout":{"limit":"1Ki","on_exceed":"kill"}}`), parent)
	if err != nil {
		t.Fatal(err)
	}
	if p.Wall.D() != time.Second || p.Stdout != (Stream{job.KiB, Kill}) || p.CPUTime != parent.CPUTime || p.Memory != parent.Memory {
		t.Errorf("step policy %+v", p)
	}
	for in, want := range map[string]string{
		`{"wall":"31s"}`:                "policy.wall: must not be above the job's own limit, 30s",
		`{"wall":"0s"}`:                 "policy.wall: must be 1ms",
		`{"cpu_time":"31s"}`:            "policy.cpu_time: must not be above",
		`{"stderr":{"limit":"65Ki"}}`:   "policy.stderr.limit: must not be above the job's own limit, 64Ki",
		`{"stdout":{"on_exceed":"no"}}`: "policy.stdout.on_exceed: must be one of",
		`{"memory":"16Mi"}`:             "policy.memory: unknown field; there are wall, cpu_time, stdout, stderr",
	} {
		if _, err := ParseStep(json.RawMessage(in), parent); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s…", in, err, want)
		}
	}
}

func TestCheckSpec(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ policy, spec, want string }{
		{`{}`, `"files":{"/workspace/a/b":{"text":""},"/tmp/x":{"base64":""}}`, ""},
		{`{}`, `"files":{"/workspace":{"text":""}}`, `files["/workspace"]: lies outside the paths of policy.write and policy.read: /workspace, /tmp`},
		{`{}`, `"files":{"/workspaces/a":{"text":""}}`, `files["/workspaces/a"]: lies outside`},
		{`{}`, `"files":{"/etc/passwd":{"text":""},"/etc/group":{"text":""}}`, `files["/etc/group"]: lies outside`},
		{`{"write":[]}`, `"files":{"/tmp/a":{"text":""}}`, `files["/tmp/a"]: lies outside the paths of policy.write and policy.read: none`},
		{`{"disk":"64Ki"}`, `"files":{"/tmp/a":{"text":"` + strings.Repeat("x", 65<<10) + `"}}`, "files: 1 files of 65Ki do not fit into policy.disk 64Ki"},
		{`{"wall":"2s"}`, `"program":{"command":{"steps":[{"name":"a","argv":["a"],"policy":{"wall":"1s"}},{"name":"b","argv":["b"],"policy":{"wall":"3s"}}]}}`,
			"program.command.steps[1].policy.wall: must not be above the job's own limit, 2s"},
	} {
		if !strings.Contains(c.spec, `"program"`) {
			c.spec += `,"program":{"python":{"code":"1"}}`
		}
		spec, err := job.DecodeSpec([]byte("{" + c.spec + "}"))
		if err != nil {
			t.Fatal(err)
		}
		err = parse(t, c.policy).CheckSpec(spec)
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %v, want %s…", c.spec[:min(len(c.spec), 80)], err, c.want)
		}
	}
}

// TestImportsNeedASnippet checks that import rules for a program without a snippet are rejected under strict.
func TestImportsNeedASnippet(t *testing.T) {
	t.Parallel()
	command := job.Spec{Program: job.Program{Command: &job.Command{Argv: []string{"true"}}}}
	snippet := job.Spec{Program: job.Program{Python: &job.Python{Code: "1"}}}
	rules := parse(t, `{"imports":{"deny":["os"]}}`)
	if err := rules.CheckSpec(command); err == nil || !strings.Contains(err.Error(), "policy.imports") {
		t.Errorf("a command: %v", err)
	}
	if err := rules.CheckSpec(snippet); err != nil {
		t.Errorf("a snippet: %v", err)
	}
	if err := parse(t, `{"enforce":"report","imports":{"deny":["os"]}}`).CheckSpec(command); err != nil {
		t.Errorf("a command whose policy is reported: %v", err)
	}
}

// A test cannot have more time than its job; that a ceiling took some refuses nothing.
func TestTestsHaveNoMoreTimeThanTheJob(t *testing.T) {
	t.Parallel()
	p := Default()
	spec := func(wall time.Duration) job.Spec {
		return job.Spec{Program: job.Program{Tests: &job.Tests{
			Code: "1", Function: "f",
			Cases: []job.Case{{Expected: json.RawMessage("1")}, {Expected: json.RawMessage("1"), Wall: job.Duration(wall)}},
		}}}
	}
	if err := p.CheckSpec(spec(p.Wall.D())); err != nil {
		t.Errorf("all of the job's: %v", err)
	}
	const want = "program.tests.cases[1].wall: 31s is more than the whole job has, policy.wall 30s"
	if err := p.CheckSpec(spec(31 * time.Second)); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("more than the job's: %v, want %s…", err, want)
	}
	defaulted := spec(0)
	defaulted.Program.Tests.CaseWall = job.Duration(31 * time.Second)
	const wantDefault = "program.tests.case_wall: 31s is more than the whole job has, policy.wall 30s"
	if err := p.CheckSpec(defaulted); err == nil || !strings.HasPrefix(err.Error(), wantDefault) {
		t.Errorf("a default above the job's wall: %v, want %s…", err, wantDefault)
	}
	p.Asked = map[string]string{"wall": "1m"}
	if err := p.CheckSpec(spec(31 * time.Second)); err != nil {
		t.Errorf("more than a ceiling left: %v", err)
	}
}
