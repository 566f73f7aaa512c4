//go:build load

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// The CPU time of programs beside a load, and the limit that they keep on an idle machine.
const (
	workCode = "import time\ndef work(s=0.8):\n    end = time.process_time() + s\n    while time.process_time() < end: pass\n    return 1\n"
	workWall = 2 * time.Second
)

// load keeps all cores busy with several programs each outside the fleet, until the test ends.
func load(t *testing.T) {
	t.Helper()
	for range runtime.NumCPU() {
		c := exec.Command("sh", "-c", "while :; do :; done")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
}

// TestVerdictsBesideLoad checks that programs which keep their time limit on an idle machine keep
// it on a busy one, and others do not: programs, steps, all kinds of tests, and sessions.
func TestVerdictsBesideLoad(t *testing.T) {
	f := start(t)
	tests := func(edit func(*job.Tests)) job.Program {
		p := job.Tests{Code: workCode}
		edit(&p)
		return job.Program{Tests: &p}
	}
	kinds := []struct {
		name string
		p    job.Program
		want job.Outcome
	}{
		{"python", python(workCode + "work()"), job.Succeeded},
		{"late", python(workCode + "work(60)"), job.TimedOut},
		{"asleep", python("import time; time.sleep(60)"), job.TimedOut},
		{"steps", job.Program{Command: &job.Command{Steps: []job.Step{
			{Name: "one", Argv: []string{"python3", "-c", workCode + "work(0.6)"}}, {Name: "two", Argv: []string{"python3", "-c", workCode + "work(0.6)"}},
		}}}, job.Succeeded},
		{"cases", tests(func(p *job.Tests) {
			p.Function, p.Cases = "work", []job.Case{{Expected: []byte("1"), Wall: job.Duration(1600 * time.Millisecond)}}
		}), job.Succeeded},
		{"late case", tests(func(p *job.Tests) {
			p.Function = "work"
			p.Cases = []job.Case{{Args: []json.RawMessage{[]byte("60")}, Expected: []byte("1"), Wall: job.Duration(400 * time.Millisecond)}, {Expected: []byte("1")}}
		}), job.Failed},
		{"check", tests(func(p *job.Tests) { p.Function, p.Check = "work", "assert work(0.6) == 1 and candidate() == 1" }), job.Succeeded},
		{"late check", tests(func(p *job.Tests) {
			p.Function, p.Check = "work", "def test_late(): candidate(60)\ndef test_fine(): assert candidate(0.1) == 1"
		}), job.Failed},
		{"stdio", tests(func(p *job.Tests) {
			p.Code += "print(input(), work())"
			p.Stdio = []job.Stdio{{Stdin: "a\n", Stdout: "a 1\n"}}
		}), job.Succeeded},
	}
	load(t)
	for _, level := range []string{"cell", "task", "gvisor"} {
		var specs []job.Spec
		for _, k := range kinds {
			s := spec(t, python(""), level, limits{"wall": workWall.String(), "cpu": 1}, "")
			s.Name, s.Program = k.name, k.p
			specs = append(specs, s)
		}
		all := f.results(t, client.BatchOptions{}, specs...)
		for _, k := range kinds {
			r := all[k.name]
			if r.Outcome != k.want {
				t.Errorf("%s, %s: %s (%s), want %s: %+v, %+v", level, k.name, r.Outcome, r.Message, k.want, r.Usage, r.Tests)
			}
			if strings.HasPrefix(k.name, "late ") && (r.Tests == nil || r.Tests.Passed != 1 || r.Tests.Cases[0].Outcome != job.TimedOut) {
				t.Errorf("%s, %s: %+v, want the first one timed out and the other passed", level, k.name, r.Tests)
			}
			if own := r.Usage.WallMS - r.Usage.WaitedMS; r.Outcome == job.TimedOut && (own < job.Milliseconds(workWall) || own > job.Milliseconds(workWall+500*time.Millisecond)) {
				t.Errorf("%s, %s: it was ended after %.0f ms of its own time: %+v", level, k.name, own, r.Usage)
			}
		}
	}
	id := f.session(t, job.SessionSpec{Policy: []byte(fmt.Sprintf(`{"wall":%q,"cpu":1}`, workWall))})
	if e := f.execute(t, id, job.Succeeded, code(workCode+"work(0.6)")); e.Usage.WaitedMS == 0 {
		t.Errorf("it waited for nobody beside a load: %+v", e.Usage)
	}
	if e := f.execute(t, id, job.TimedOut, api.ExecuteRequest{Code: "work(60)"}); !e.Alive || e.Usage.WallMS-e.Usage.WaitedMS > job.Milliseconds(workWall+500*time.Millisecond) {
		t.Errorf("%+v: %+v", e, e.Usage)
	}
	f.execute(t, id, job.TimedOut, code("time.sleep(60)"))
}
