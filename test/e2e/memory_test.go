package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// most is the most memory that messages from sandboxes may add to a worker, in MB.
const most = 200

// filled defines filled, which makes a text of that many bytes of one part.
const filled = `
import os, struct, threading, time
def filled(size, head, part, tail):
    count = (size - len(head) - len(tail) - len(part)) // (len(part) + 1)
    return (head + (part + ",") * count + part + tail).encode()
def framed(body):
    return struct.pack(">I", len(body)) + body
def say(fd, data):
    try:
        while data: data = data[os.write(fd, data):]
    except OSError: pass
def together():
    time.sleep(max(0, AT - time.time()))
`

// TestWorkerMemory runs jobs, sessions and solutions that all send the largest possible messages at
// once, made of parts that grow most when decoded. The worker's memory grows by at most most, and
// every innocent job beside them has its right result. On 5ee7338 it was 2 GiB more.
func TestWorkerMemory(t *testing.T) {
	f := start(t, "ASSAY_CPU=64", "ASSAY_MEMORY=64Gi")
	f.run(t, python("1"), job.Succeeded) // warm-up
	f.run(t, graded("def f(x): return x * 2\nif __name__ == '__main__': print(f(int(input())))"), job.Succeeded)
	worker := f.worker(t)
	var attackers, victims sync.WaitGroup
	var sessions []job.ID
	for range 8 {
		sessions = append(sessions, f.session(t, job.SessionSpec{Functions: []string{"f"}, Policy: []byte(`{"memory": "256Mi", "callbacks": {"allow": ["f"], "max_calls": 1000}}`)}))
	}
	beside := f.session(t, job.SessionSpec{})
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", worker), []byte("5"), 0); err != nil { // resets the peak
		t.Fatal(err)
	}
	idle := memory(t, worker, "VmRSS")
	at := time.Now().Add(6 * time.Second)
	attack := strings.ReplaceAll(filled, "AT", strconv.FormatInt(at.Unix(), 10))

	results := []string{`'{"display":[', '{}', ']}'`, `'{"order":[', '[]', ']}'`, `'{"display":[{"table":{"rows":[', '[]', ']}}]}'`,
		`'{"value":{"json":[', '[[]]', ']}}'`, `'{"value":{"json":', '9' * 1000000, '}}'`, `'{"variables":{', '"a":{}', '}}'`}
	for i := range 12 {
		attackers.Go(func() {
			text := attack + "data = filled(4 << 20, " + results[i%len(results)] + ")\ntogether()\nsay(4, data)\nos._exit(0)"
			_, err := f.api.Run(t.Context(), spec(t, python(text), "cell", limits{"memory": "128Mi"}, ""))
			if err != nil {
				t.Errorf("hostile job %d: %v", i, err)
			}
		})
	}
	frames := []string{`'{"op":"done","id":1,"display":[', '{}', ']}'`, `'{"op":"done","id":1,"variables":{', '"a":{}', '}}'`,
		`'{"op":"call","call":%d,"name":"f","kwargs":{},"args":[' % n, '0', ']}'`, `'{"op":"done","id":1,"output":[', '[]', ']}'`}
	for i, id := range sessions {
		attackers.Go(func() {
			text := attack + "together()\nfor n in range(1, 5):\n    say(5, framed(filled(24 << 20, " + frames[i%len(frames)] + ")))\n"
			if i >= len(frames) { // also unrequested ones
				text = attack + "def later():\n    together()\n    for n in range(1, 40): say(5, framed(filled(1 << 20, " + frames[i%len(frames)] + ")))\nthreading.Thread(target=later).start()\n"
			}
			if _, err := f.api.Execute(t.Context(), id, api.ExecuteRequest{Code: text, Wall: job.Duration(20 * time.Second)}); err != nil {
				t.Errorf("hostile session %d: %v", i, err)
			}
		})
	}
	for i := range 4 {
		attackers.Go(func() {
			text := attack + `
data = framed(filled(8 << 20, '{"op":"done","value":[', '` + []string{"{}", "[]", "0", `{"$":[]}`}[i] + `', ']}'))
def f(x):
    together()
    for fd in range(3, 64): threading.Thread(target=say, args=(fd, data), daemon=True).start()
    time.sleep(5)
`
			_, err := f.api.Run(t.Context(), spec(t, graded(text), "cell", limits{"memory": "256Mi", "wall": "15s"}, ""))
			if err != nil {
				t.Errorf("hostile solution %d: %v", i, err)
			}
		})
	}
	over := make(chan struct{})
	for range 2 {
		victims.Go(func() {
			for n := 0; ; n++ {
				f.run(t, python("print(6 * 7)"), job.Succeeded)
				f.run(t, graded("def f(x): return x"), job.Failed)
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	attackers.Wait()
	for deadline := at.Add(4 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) { // unrequested messages come later
	}
	close(over)
	victims.Wait()
	f.execute(t, beside, job.Succeeded, code("1"))
	if again := f.worker(t); again != worker {
		t.Errorf("the worker was started again: %d, then %d", worker, again)
	}
	peak := memory(t, worker, "VmHWM")
	t.Logf("the worker has %d MB when it is idle, and had %d", idle, peak)
	if peak-idle > most {
		t.Errorf("messages took %d MB of the worker's memory, want at most %d", peak-idle, most)
	}
}

// run runs an innocent job, in one attempt.
func (f *fleet) run(t *testing.T, p job.Program, want job.Outcome) {
	r, err := f.api.Run(t.Context(), spec(t, p, "cell", limits{"wall": "60s"}, ""))
	if err != nil || r.Outcome != want || len(r.Attempts) != 1 {
		t.Errorf("innocent job: %+v, %v, want %s in one attempt", r, err, want)
	}
}

// worker returns the process of the fleet's worker.
func (f *fleet) worker(t *testing.T) int {
	t.Helper()
	return f.process(t, "worker")
}

// process returns the process of a program of the fleet.
func (f *fleet) process(t *testing.T, program string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if to, _ := os.Readlink(link); to == filepath.Join(f.bin, program) && value(pid, "PPid") == os.Getpid() {
			return pid
		}
	}
	t.Fatal(errors.New("no " + program + " runs"))
	return 0
}

// memory returns a line of a process's status, in MB.
func memory(t *testing.T, pid int, line string) int {
	t.Helper()
	kib := value(pid, line)
	if kib <= 0 {
		t.Fatalf("process %d has no %s", pid, line)
	}
	return kib << 10 / 1_000_000
}

// value returns the number in a line of a process's status, or -1 if there is none.
func value(pid int, line string) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, found := bytes.Cut(status, []byte("\n"+line+":"))
	words := bytes.Fields(rest)
	if !found || len(words) == 0 {
		return -1
	}
	n, err := strconv.Atoi(string(words[0]))
	if err != nil {
		return -1
	}
	return n
}
