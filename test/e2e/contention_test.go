package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
)

// burnCode uses as much CPU time as its input requests, in milliseconds. %d makes its source
// unique.
const burnCode = `// %d
#include <cstdio>
#include <ctime>
int main() {
	int n, ms;
	if (scanf("%%d %%d", &n, &ms) != 2) return 1;
	while (clock() < (long)ms * (CLOCKS_PER_SEC / 1000)) ;
	printf("%%d\n", n);
}
`

// burnCPU is the CPU time of each case of burns, in milliseconds.
const burnCPU = 100

// burns returns a solution in C++ with n cases, which all pass.
func burns(source, n int) *job.Tests {
	p := &job.Tests{Language: "cpp", Code: fmt.Sprintf(burnCode, source)}
	for i := range n {
		p.Stdio = append(p.Stdio, job.Stdio{Stdin: fmt.Sprintf("%d %d\n", i, burnCPU), Stdout: fmt.Sprintln(i)})
	}
	return p
}

// submit runs tests under a limit of time, and returns the result and the duration.
func submit(t *testing.T, f *fleet, tests *job.Tests, wall time.Duration) (*job.Result, time.Duration) {
	t.Helper()
	policy, err := json.Marshal(limits{"wall": wall.String(), "cpu_time": "1m", "cpu": 1})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r, err := f.api.Run(t.Context(), job.Spec{Program: job.Program{Tests: tests}, Policy: policy})
	if err == nil && r.Tests == nil {
		err = fmt.Errorf("no tests: %s: %s", r.Outcome, r.Message)
	}
	if err != nil {
		t.Error(err)
		return &job.Result{Tests: &job.TestsResult{}}, 0
	}
	return r, time.Since(began)
}

// sumOfCases returns the total time of all cases, including waits.
func sumOfCases(r *job.Result) (ms float64) {
	for _, c := range r.Tests.Cases {
		ms += c.WallMS
	}
	return ms
}

// TestCasesUnderContention checks that other load, and cases that run side by side, do not use up
// the time of a submission. The limit of all its cases together is less than twice their use.
func TestCasesUnderContention(t *testing.T) {
	f := start(t)
	const wall, others = 11 * time.Second, 8
	mixed := burns(0, 50)
	mixed.Stdio[20].Stdout = "21\n"                                                                // wrong
	mixed.Stdio[30].Stdin, mixed.Stdio[30].Wall = "30 60000\n", job.Duration(700*time.Millisecond) // too slow
	verdicts := func(r *job.Result) (out []job.CaseResult) {
		for _, c := range r.Tests.Cases {
			out = append(out, job.CaseResult{Name: c.Name, Passed: c.Passed, Outcome: c.Outcome})
		}
		return out
	}
	say := func(when string, r *job.Result, took time.Duration) {
		u := r.Usage
		t.Logf("%s: %d of %d in %v: %.0f ms of its own, %.0f waited, %.0f of CPU", when, r.Tests.Passed, r.Tests.Total, took.Round(time.Millisecond), u.WallMS-u.WaitedMS, u.WaitedMS, u.CPUMS)
	}
	idle, took := submit(t, f, mixed, wall)
	say("alone", idle, took)
	if c := idle.Tests.Cases; idle.Tests.Passed != 48 || c[20].Outcome != job.Failed || c[30].Outcome != job.TimedOut {
		t.Fatalf("alone: %d of 50 passed: %+v", idle.Tests.Passed, c)
	}
	type ended struct {
		r    *job.Result
		took time.Duration
	}
	all := make(chan ended, others)
	for range others {
		go func() {
			r, took := submit(t, f, burns(0, 20), wall/2)
			all <- ended{r, took}
		}()
	}
	loaded, took := submit(t, f, mixed, wall)
	say("beside others", loaded, took)
	if diff := cmp.Diff(verdicts(idle), verdicts(loaded)); diff != "" {
		t.Errorf("its verdicts depend on others (-alone +beside them):\n%s", diff)
	}
	for range others {
		if e := <-all; e.r.Tests.Passed != 20 {
			say("another", e.r, e.took)
			t.Errorf("another: %d of 20 cases passed: %s", e.r.Tests.Passed, e.r.Message)
		}
	}
	if u := loaded.Usage; u.WaitedMS == 0 || u.WallMS-u.WaitedMS < u.CPUMS {
		t.Errorf("beside others it waited for nobody, or had less time than it used: %+v", u)
	}
}

// metric returns the value of a metric of the worker with that text in its labels, or 0 if there is
// none.
func (f *fleet) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	log, err := os.ReadFile(f.log)
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`serving metrics.*?address"?[=:]"?([0-9.]+:[0-9]+)`).FindSubmatch(log)
	if address == nil {
		t.Fatal("the worker does not say where its metrics are")
	}
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+string(address[1])+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^` + name + `\{[^}]*` + label + `[^}]*\} (\S+)$`).FindSubmatch(page)
	if line == nil {
		return 0
	}
	v, err := strconv.ParseFloat(string(line[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// fewWait is the CPU pressure, in percent, up to which cases surely run side by side.
const fewWait = 25

// TestFiftyCases compiles a solution with 50 cases once. Its time is little more than that of its
// compiler and its cases on the machine's cores. Sent again, it is not compiled.
func TestFiftyCases(t *testing.T) {
	f := start(t)
	submit(t, f, burns(0, 1), time.Minute) // warm-up
	pressure := func() float64 { return f.metric(t, "assay_worker_pressure", `resource="cpu"`) }
	compiles := func() [2]float64 {
		return [2]float64{f.metric(t, "assay_compiles_total", `cached="false"`), f.metric(t, "assay_compiles_total", `cached="true"`)}
	}
	before, cores := compiles(), float64(runtime.NumCPU())
	for i := range 2 {
		for until := time.Now().Add(30 * time.Second); pressure() > fewWait && time.Now().Before(until); {
			time.Sleep(time.Second)
		}
		busy := pressure()
		r, took := submit(t, f, burns(1, 50), time.Minute)
		busy = max(busy, pressure())
		if r.Outcome != job.Succeeded || r.Tests.Passed != 50 || r.Compiled == nil || r.Compiled.Cached != (i == 1) {
			t.Fatalf("%d: %s: %s, %+v, compiled %+v", i, r.Outcome, r.Message, r.Tests, r.Compiled)
		}
		if now := compiles(); now[0] != before[0]+1 || now[1] != before[1]+float64(i) {
			t.Errorf("%d: the worker has compiled %v programs and %v not again; before %v", i, now[0], now[1], before)
		}
		compile, cases := r.Compiled.Usage.WallMS, sumOfCases(r)
		if r.Compiled.Cached {
			compile = 0
		}
		whole := job.Milliseconds(took)
		on := func(n float64) float64 { return whole / (compile + cases/n) }
		t.Logf("%d: %.0f ms: compiled in %.0f, cases %.0f: %.2f times that on %.0f cores, %.2f times on one; for %.0f%% of the time something on the host waited for a core",
			i, whole, compile, cases, on(cores), cores, on(1), busy)
		// If other processes use the cores, cases run one after the other. This is not the fleet's
		// fault.
		if on(1) > 1.3 || busy <= fewWait && on(cores) > 1.3 {
			t.Errorf("%d: the whole takes more than 1.3 times what its parts do", i)
		}
	}
}
