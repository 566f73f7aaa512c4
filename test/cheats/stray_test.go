package cheats

import (
	"encoding/json"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// flood is the beginning of solutions that write frames to the worker's descriptor.
const flood = `
import os, struct, sys
def flood(body, n=1000):
    frame = struct.pack(">I", len(body)) + body
    try:
        for _ in range(n): os.write(5, frame)
    except OSError: pass
values = b"[" + b"[]," * 600000 + b"[]]"
`

// floods send the worker frames that are expensive to decode.
var floods = map[string]string{
	"unknown op":            `def f(x): flood(b'{"op":"x","id":0,"value":' + values + b'}')`,
	"answers of other case": `def f(x): flood(b'{"op":"return","id":1,"value":' + values + b'}')`,
	"long requests":         `def f(x): flood(b'{"op":"late","id":1,"value":' + values + b'}')`,
	"medium frames":         `def f(x): flood(b'{"op":"x","id":0,"value":' + values[:60001] + b'[]]}')`,
	"small frames":          `def f(x): flood(b'{"op":"late","id":1}', 100000)`,
	"long answers": `
def f(x):
    at = sys._getframe()
    while not {"m", "n"} <= set(at.f_locals): at = at.f_back
    flood(b'{"op":"return","id":%d,"value":"' % at.f_locals["n"] + b"x" * 7900000 + b'"}', 1)
    os._exit(0)`,
	"while it loads":        `flood(b'{"op":"x","id":0,"value":' + values + b'}')` + "\ndef f(x): return 1",
	"by a child that stays": "def f(x):\n    if os.fork() == 0: flood(b'{\"op\":\"x\",\"id\":0,\"value\":' + values + b'}')\n    return 1",
}

// TestFloodsAreCheap checks that frames that are not answers cost the worker at most 1.2 times the
// charge of the job, beyond the cost of four cases of any solution.
func TestFloodsAreCheap(t *testing.T) {
	for _, isolation := range []policy.Isolation{policy.Cell, policy.Task} {
		t.Run(string(isolation), func(t *testing.T) {
			fl := newFleet(t, isolation)
			cost := func(code string) (worker, charged time.Duration, r *job.TestsResult) {
				t.Helper()
				tests := &job.Tests{Code: flood + code, Function: "f"}
				for range 4 {
					tests.Cases = append(tests.Cases, job.Case{Args: []json.RawMessage{[]byte("1")}, Expected: []byte("2"), Wall: job.Duration(3 * time.Second)})
				}
				before := workerTime(t)
				rep := fl.grade(t, tests, nil)
				return workerTime(t) - before, time.Duration(rep.Usage.CPUMS * float64(time.Millisecond)), rep.Tests
			}
			cost("def f(x): os.kill(os.getppid(), 9)") // warm
			honest, _, _ := cost("def f(x): os.kill(os.getppid(), 9)")
			for name, code := range floods {
				t.Run(name, func(t *testing.T) {
					worker, charged, r := cost(code)
					t.Logf("the worker used %v, and the job was charged %v", worker, charged)
					if worker > charged*6/5+2*honest+300*time.Millisecond {
						t.Errorf("the worker used %v, %v for a solution that ends its sandboxes; the job was charged %v", worker, honest, charged)
					}
					if r.Passed != 0 {
						t.Errorf("%d cases passed", r.Passed)
					}
				})
			}
		})
	}
}

// workerTime returns the CPU time of this process, which is the worker of these tests.
func workerTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
