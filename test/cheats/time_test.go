package cheats

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// slowWall is the limit of each case. slow is a right solution that takes many times as long.
const (
	slowWall = 300 * time.Millisecond
	slow     = `
import os, sys, time
_cpu, _kill, _write = time.process_time, os.kill, os.write
def work(x, seconds=4):
    end = _cpu() + seconds
    while _cpu() < end: pass
    return x + 1
def f(x): return work(x)
`
	asleep = `
import os, time
_sleep = time.sleep
def f(x):
    _sleep(12)
    return x + 1
`
	// whole finds the solution's side that answers the worker.
	whole = `
import gc
def side():
    return next(o for o in gc.get_objects() if type(o).__name__ == "Solution" and hasattr(o, "channel"))
`
	// frames writes to the worker's descriptor.
	frames = `
import json, os, struct
def say(**o):
    b = json.dumps(o).encode()
    os.write(5, struct.pack(">I", len(b)) + b)
`
)

// slowAttempts try to make a slow solution look fast. Each forges a report of the solution's side.
var slowAttempts = map[string]string{
	"honest":                   slow,
	"asleep":                   asleep,
	"clock stands":             slow + "time.monotonic = lambda: 0.0\n",
	"clock goes back":          slow + "_t = time.monotonic\ntime.monotonic = lambda: -_t()\n",
	"clocks of every kind":     slow + "for n in 'time', 'monotonic', 'perf_counter': setattr(time, n, lambda: 0.0)\ntime.monotonic_ns = time.time_ns = lambda: 0\n",
	"clock stands, asleep":     asleep + "time.monotonic = lambda: 0.0\n",
	"waits without a limit":    slow + "sys.modules['assay_solution']._wait = lambda pid, s: os.waitpid(pid, 0)[1]\n",
	"asks for no more time":    slow + "sys.modules['assay_solution'].Solution.late = lambda self, n: 9.0\n",
	"late returns a lie":       slow + "_late = sys.modules['assay_solution'].Solution.late\nsys.modules['assay_solution'].Solution.late = lambda self, n: _late(self, n) or 9.0\n",
	"waitpid waits":            slow + "_waitpid = os.waitpid\nos.waitpid = lambda pid, flags: _waitpid(pid, 0)\n",
	"waitpid and select lie":   slow + "import select\n_waitpid = os.waitpid\nselect.select = lambda *a: None\nos.waitpid = lambda pid, flags: _waitpid(pid, 0)\n",
	"no pidfd, no sleep":       slow + "_waitpid = os.waitpid\ndel os.pidfd_open\ntime.sleep = lambda s: _waitpid(-1, 0)\n",
	"children are not killed":  slow + "os.kill = os.killpg = lambda *a: None\n",
	"frames have no timeout":   slow + "_send = sys.modules['assay_wire'].Channel.send\nsys.modules['assay_wire'].Channel.send = lambda self, m: _send(self, {k: v for k, v in m.items() if k != 'timeout'})\n",
	"timeout is false":         slow + "_send = sys.modules['assay_wire'].Channel.send\nsys.modules['assay_wire'].Channel.send = lambda self, m: _send(self, dict(m, timeout=False, code=0, signal=0, left=9.0, wall=9.0))\n",
	"limits are long":          slow + "_receive = sys.modules['assay_wire'].Channel.receive\ndef receive(self):\n    m = _receive(self)\n    if m and 'wall' in m: m['wall'] = 60.0\n    if m and 'left' in m: m['left'] = 60.0\n    return m\nsys.modules['assay_wire'].Channel.receive = receive\n",
	"no process for a case":    slow + "def fork(): raise OSError()\nos.fork = fork\n",
	"answers for all cases":    slow + frames + "for i in range(20): say(op='return', id=i, value=i + 1), say(op='ended', id=i, code=0)\n",
	"answers after the answer": slow + frames + "_f = f\ndef f(x):\n    if os.fork() == 0:\n        for i in range(20): say(op='return', id=i, value=x + 2), say(op='ended', id=i, code=0)\n        os._exit(0)\n    return _f(x)\n",
	"asks again and again":     slow + whole + "import threading\ndef asks(n):\n    for _ in range(50): side().channel.send({'op': 'late', 'id': n})\n_case = sys.modules['assay_solution'].Solution.case\ndef case(self, m):\n    asks(m['id'])\n    return _case(self, m)\nsys.modules['assay_solution'].Solution.case = case\n",
}

// No solution passes a case for which it is too slow, whatever it does to the clocks and messages
// of its sandbox.
func TestSlowSolutionsTimeOut(t *testing.T) {
	eachIsolation(t, func(t *testing.T, f *fleet) {
		names := make([]string, 0, len(slowAttempts))
		for name := range slowAttempts {
			names = append(names, name)
		}
		for _, name := range part(t, f, names) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tests := &job.Tests{Code: slowAttempts[name], Function: "f"}
				for i := range 4 {
					tests.Cases = append(tests.Cases, job.Case{Args: []json.RawMessage{fmt.Append(nil, i)}, Expected: fmt.Append(nil, i+1), Wall: job.Duration(slowWall)})
				}
				rep := f.grade(t, tests, func(p *policy.Policy) { p.Wall = job.Duration(20 * time.Second) })
				if rep.Tests.Passed != 0 || rep.Outcome != job.Failed {
					t.Errorf("%s, %d passed: %+v", rep.Outcome, rep.Tests.Passed, rep.Tests.Cases)
				}
			})
		}
	})
}

// The check's sandbox has its own clock: manipulations of the solution's clock change no limit of a
// test.
func TestSlowSolutionsTimeOutInChecks(t *testing.T) {
	eachIsolation(t, func(t *testing.T, f *fleet) {
		for name, code := range map[string]string{
			"clock stands": slow + "time.monotonic = time.time = lambda: 0.0\n",
			"asleep":       asleep,
			"no polling":   slow + "import select\nselect.poll = None\n",
			"late lies":    slow + "sys.modules['assay_solution'].Solution.late = lambda self, n: 9.0\n",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tests := &job.Tests{Code: code, Function: "f", Check: "def test_one():\n    assert candidate(1) == 2\ndef test_two():\n    assert candidate(2) == 3\n"}
				rep := f.grade(t, tests, func(p *policy.Policy) { p.Wall = job.Duration(2 * slowWall) })
				if rep.Tests.Passed != 0 || rep.Outcome != job.Failed {
					t.Errorf("%s, %d passed: %+v", rep.Outcome, rep.Tests.Passed, rep.Tests.Cases)
				}
			})
		}
	})
}
