package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

// library is a program that imports packages.
type library struct {
	name, packages, code string
}

var libraries = []library{
	{"numpy", `["numpy"]`, "import numpy"},
	{"data", `["pandas","scipy","sympy"]`, "import pandas\nimport scipy\nimport sympy"},
}

// libs measures programs that import packages of their policy. It alternates with a loop of bare
// interpreters over the same packages and all cores. It needs a python3 of the image's version, and
// packages from the fleet's index.
func libs(ctx context.Context, b *bench) (r Report, err error) {
	t, isolation, note, err := b.cellTarget(ctx)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	if t.cmd == nil {
		return nil, errNotOurs
	}
	r = Report{}
	r.Noted(isolation, note)
	before, err := t.said(ctx, libraries[0].spec(isolation, sight), 1)
	if err != nil {
		return nil, err
	}
	first := 0.0
	for _, l := range libraries {
		if err := l.measure(ctx, b, t, isolation, r); err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		first = max(first, r[l.name+"_first_ratio"].(float64))
	}
	r["first_ratio"] = first
	if r["same_draws"], err = t.sameDraws(ctx, isolation); err != nil {
		return nil, err
	}
	after, err := t.said(ctx, libraries[0].spec(isolation, sight), 20)
	if err != nil {
		return nil, err
	}
	late, err := t.said(ctx, libraries[0].spec(isolation, lateSight), 20)
	if err != nil {
		return nil, err
	}
	visible := 0
	for _, said := range after {
		if said != before[0] {
			visible++
		}
	}
	for _, said := range late {
		if said != "False\n" {
			visible++
		}
	}
	r["visible"] = visible
	return r, nil
}

// sight prints the state of an interpreter in which a program has imported nothing.
const sight = `
import sys, os, threading, gc, warnings, signal
print(sorted(sys.modules), sys.meta_path, sys.path_hooks, sorted(os.listdir("/proc/self/fd")), threading.active_count(), len(os.listdir("/proc/self/task")))
print(len(gc.get_objects()) // 100, len(object.__subclasses__()) // 10, warnings.filters, [signal.getsignal(n) for n in (2, 15, 17)], os.getcwd(), dict(os.environ), os.getpid(), os.getppid())
`

// lateSight shows whether modules are loaded before the program imports them.
const lateSight = `
import sys
found = any(name.partition(".")[0] == "numpy" for name in sys.modules)
import numpy
print(found)
`

// draws prints a random number from each source that a program can use.
const draws = `
import numpy
import random, os, uuid, secrets
print(random.random(), numpy.random.random(), numpy.random.default_rng().random(), os.urandom(8).hex(), uuid.uuid4(), secrets.token_hex(8))
`

func (l library) spec(isolation policy.Isolation, code string) job.Spec {
	return job.Spec{
		Image: "python", Program: job.Program{Python: &job.Python{Code: code}},
		Policy: json.RawMessage(fmt.Sprintf(`{"isolation":%q,"packages":%s,"wall":"60s","cpu_time":"60s","memory":"1Gi"}`, isolation, l.packages)),
	}
}

// measure adds the cost of l to r.
func (l library) measure(ctx context.Context, b *bench, t *target, isolation policy.Isolation, r Report) error {
	spec := l.spec(isolation, l.code)
	b.logf("%s: building its environment", l.name)
	res, err := t.Run(ctx, spec)
	if err != nil {
		return err
	}
	if res.Outcome != job.Succeeded {
		return fmt.Errorf("%s: %s\n%s", res.Outcome, res.Message, res.Stderr.Text)
	}
	site, err := t.packages(l)
	if err != nil {
		return err
	}
	part := b.duration / 4
	b.logf("%s: bare interpreters", l.name)
	one, err := barePerSecond(ctx, site, l.code, 1, min(part, 2*time.Second))
	if err != nil {
		return err
	}
	r[l.name+"_first_ratio"] = Round(res.Timings.RunMS/1000*one, 2)
	loop, err := barePerSecond(ctx, site, l.code, runtime.NumCPU(), part)
	if err != nil {
		return err
	}
	b.logf("%s: measuring", l.name)
	for range 4 { // until programs are forked with their imports
		if _, err := t.runBatch(ctx, spec, 4); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	before, err := t.cpuNow()
	if err != nil {
		return err
	}
	o, err := t.batches(ctx, spec, b.n, 2*part, 20)
	if err != nil {
		return err
	}
	after, err := t.cpuNow()
	if err != nil {
		return err
	}
	again, err := barePerSecond(ctx, site, l.code, runtime.NumCPU(), part)
	if err != nil {
		return err
	}
	if o.errors > 0 {
		return fmt.Errorf("%d of %d jobs did not succeed", o.errors, o.jobs)
	}
	loop = (loop + again) / 2
	r[l.name+"_per_s"], r[l.name+"_bare_per_s"] = Rate(o.jobs, o.took), Round(loop, 2)
	r[l.name+"_ratio"] = Round(Rate(o.jobs, o.took)/loop, 2)
	r[l.name+"_cpu_ms_per_job"] = after.perJob(before, o.jobs)
	return nil
}

// packages returns the directory with the packages of l, which the bench's own fleet has built.
func (t *target) packages(l library) (string, error) {
	var names []string
	if err := json.Unmarshal([]byte(l.packages), &names); err != nil {
		return "", err
	}
	found := ""
	err := filepath.WalkDir(t.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || !strings.Contains(path, "/layer/") {
			return nil
		}
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(path, name, "__init__.py")); err != nil {
				return nil
			}
		}
		found = path
		return filepath.SkipAll
	})
	if found == "" {
		err = errors.Join(err, fmt.Errorf("the environment of %s is not below %s", l.packages, t.dir))
	}
	return found, err
}

// said runs n equal jobs and returns the output of each.
func (t *target) said(ctx context.Context, spec job.Spec, n int) (all []string, err error) {
	o, err := t.runBatch(ctx, spec, n)
	if err != nil {
		return nil, err
	}
	for raw, err := range t.Results(ctx, o.batches[0], false) {
		if err != nil {
			return nil, err
		}
		var res job.Result
		if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&res); err != nil {
			return nil, err
		}
		if res.Outcome != job.Succeeded {
			return nil, fmt.Errorf("%s: %s\n%s", res.Outcome, res.Message, res.Stderr.Text)
		}
		all = append(all, res.Stdout.Text)
	}
	return all, nil
}

// sameDraws counts the random numbers that two programs have both drawn.
func (t *target) sameDraws(ctx context.Context, isolation policy.Isolation) (same int, err error) {
	seen := map[string]bool{}
	all, err := t.said(ctx, libraries[0].spec(isolation, draws), 200)
	for _, said := range all {
		for i, drawn := range strings.Fields(said) {
			key := fmt.Sprint(i, drawn)
			if seen[key] {
				same++
			}
			seen[key] = true
		}
	}
	return same, err
}
