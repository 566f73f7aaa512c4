// Command bench measures a fleet. It starts one of its own in a temporary directory, by `assay
// dev`, unless ASSAY_URL names a fleet. Ratios are taken in the same run. Its last line is one JSON
// object.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// scenario is one measurement.
type scenario struct {
	about string
	run   func(context.Context, *bench) (Report, error)
	waits bool // whether it is one client that waits for each answer
}

var scenarios = map[string]scenario{
	"python":     {about: "batches of print(1+1), isolation cell", run: python},
	"compat":     {about: "requests in the format of SandboxFusion from 64 clients, and from 256, beside batches of the same program", run: compat},
	"cases":      {about: "submissions of 20 stdio cases: one job each, beside a request in the format of SandboxFusion for each case", run: cases},
	"command":    {about: "batches of /bin/true, isolation cell", run: command},
	"map":        {about: "client.map of the Python client over print(1+1), beside batches of them", run: pythonMap},
	"task":       {about: "batches of /bin/true, a containerd task each, beside a bare client loop", run: task},
	"gvisor":     {about: "the same under runsc", run: gvisor},
	"tests":      {about: "all of examples/humaneval, graded by check code, isolation cell", run: tests},
	"sync":       {about: "one client that waits for each print(1+1)", run: synchronous, waits: true},
	"libs":       {about: "programs that import numpy, and pandas with scipy and sympy, beside a loop of bare interpreters", run: libs},
	"noop":       {about: "the control plane alone: a runtime that does nothing", run: noop},
	"groups":     {about: "the same with 10 and 10,000 live batches, -n jobs each", run: groups},
	"tenants":    {about: "the same with jobs of 1 and of 5,000 tenants, or -n, and the CPU time of a look", run: tenants},
	"history":    {about: "the same with 0, 35 and 365 days of ended jobs beside today's", run: history},
	"longtx":     {about: "the same beside a transaction that stays open", run: longtx},
	"submit":     {about: "accepting jobs in batches of 10000", run: submit},
	"poll":       {about: "GET of a finished batch", run: poll},
	"states":     {about: "the states of 10,000 batches, or -n, once a second", run: states},
	"session":    {about: "create, execute and callback in live sessions", run: sessions, waits: true},
	"idle":       {about: "memory of warm slots", run: idle},
	"fleet":      {about: "simulated workers against one control plane", run: simulated},
	"watchers":   {about: "5,000 clients, or -n, that wait for a batch each", run: watchers},
	"contention": {about: "programs that work for a second, twenty for each core, beside others", run: contention},
	"canary":     {about: "all of examples/humaneval on an idle and on a saturated machine: the verdicts that differ", run: canary},
	"bigresult":  {about: "small jobs beside jobs with 16 MiB of output", run: bigresult},
}

// bench has the options of a scenario.
type bench struct {
	duration time.Duration
	n        int // 0: the scenario's own choice
	log      io.Writer
	verbose  bool
}

// logf reports progress to a person.
func (b *bench) logf(format string, args ...any) { fmt.Fprintf(b.log, "bench: "+format+"\n", args...) }

func run(ctx context.Context, args []string, out, log io.Writer) error {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(log)
	name := f.String("scenario", "", "what to measure: "+strings.Join(slices.Sorted(maps.Keys(scenarios)), ", "))
	duration := f.Duration("duration", 20*time.Second, "how long to measure")
	n := f.Int("n", 0, "how many jobs, in place of a duration")
	other := f.String("beside", "", "the directory of another build of this project, to run by turns with this one: the output is ratios")
	rounds := f.Int("rounds", 3, "with -beside: how often to measure both")
	jsonOnly := f.Bool("json", false, "print nothing but the JSON object")
	verbose := f.Bool("v", false, "copy the fleet's log to stderr")
	f.Usage = func() {
		fmt.Fprintln(log, "usage: bench -scenario NAME [-duration 20s] [-n N] [-json] [-beside TREE [-rounds 3]]")
		for _, s := range slices.Sorted(maps.Keys(scenarios)) {
			fmt.Fprintf(log, "  %-9s %s\n", s, scenarios[s].about)
		}
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	s, ok := scenarios[*name]
	switch {
	case !ok:
		f.Usage()
		return fmt.Errorf("-scenario: there is no %q; there are %s", *name, strings.Join(slices.Sorted(maps.Keys(scenarios)), ", "))
	case *n < 0 || *duration <= 0:
		return fmt.Errorf("-n and -duration must be positive")
	case *other != "" && (*n != 0 || *rounds < 1):
		return fmt.Errorf("-beside: -rounds must be positive, and -n cannot be set: both builds run for -duration")
	}
	b := &bench{duration: *duration, n: *n, log: log, verbose: *verbose}
	if *jsonOnly {
		b.log = io.Discard
	}
	if *other != "" {
		c := &Comparison{Scenario: *name, Duration: *duration, Rounds: *rounds, Trees: [2]string{".", *other}, Logf: b.logf}
		r, err := c.Run(ctx)
		return r.Write(out, *name, err)
	}
	if s.waits {
		// The client gets half of the machine, like the parts of a fleet. On two cores, a client
		// that may use both would wake the other for nothing.
		runtime.GOMAXPROCS(max(runtime.NumCPU()/2, 1))
	}
	r, err := s.run(ctx, b)
	return r.Write(out, *name, err)
}
