package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

//go:embed map.py
var mapProgram string

// mapped is the report of a Python process about its map.
type mapped struct {
	OK         int     `json:"ok"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	PeakMB     float64 `json:"peak_mb"`
}

// pythonMap measures client.map of the Python client between two halves of the same number of jobs,
// submitted as in scenario python. So other load on the machine affects both.
func pythonMap(ctx context.Context, b *bench) (r Report, err error) {
	python, err := sdkPython()
	if err != nil {
		return nil, err
	}
	t, isolation, note, err := b.cellTarget(ctx)
	if err != nil {
		return nil, err
	}
	defer t.stopped(&err)
	n, spec := b.n, pythonJob(isolation)
	if n == 0 {
		n = 20_000
	}
	b.logf("warming up")
	if _, err := t.runBatch(ctx, spec, 50); err != nil {
		return nil, err
	}
	var bare outcome
	half := func() error {
		b.logf("submitting %d jobs as batches", n/2)
		o, err := t.runBatch(ctx, spec, max(n/2, 1))
		bare.jobs, bare.took = bare.jobs+o.jobs, bare.took+o.took
		return err
	}
	if err := half(); err != nil {
		return nil, err
	}
	b.logf("mapping %d jobs with the Python client", n)
	m, err := t.mapped(ctx, python, n, string(isolation))
	if err != nil {
		return nil, err
	}
	if err := half(); err != nil {
		return nil, err
	}
	took := time.Duration(m.Seconds * float64(time.Second))
	rate, bareRate := Rate(n, took), Rate(bare.jobs, bare.took)
	r = Report{
		"jobs": n, "errors": n - m.OK, "seconds": Round(m.Seconds, 3), "jobs_per_s": rate,
		"python_per_s": bareRate, "ratio": Round(rate/bareRate, 3),
		"client_mb": Round(m.PeakMB, 1), "client_cpu_ms_per_job": Round(1000*m.CPUSeconds/float64(n), 3),
	}
	r.Noted(isolation, note)
	return r, nil
}

// mapped runs client.map over n jobs in a Python process.
func (t *target) mapped(ctx context.Context, python string, n int, isolation string) (m mapped, err error) {
	cmd := exec.CommandContext(ctx, python, "-c", mapProgram, t.url, strconv.Itoa(n), isolation)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return m, fmt.Errorf("map with the Python client: %w: %s", err, stderr.String())
	}
	if err := json.Unmarshal(out, &m); err != nil {
		return m, fmt.Errorf("map with the Python client: %w in %q", err, out)
	}
	return m, nil
}

// sdkPython returns an interpreter with the Python client: SDK_PYTHON, or the one of `make sdk`.
func sdkPython() (string, error) {
	python := os.Getenv("SDK_PYTHON")
	if python == "" {
		exe, err := os.Executable()
		if err != nil {
			return "", err
		}
		python = filepath.Join(filepath.Dir(exe), "..", ".cache", "sdk", "bin", "python")
	}
	if err := exec.Command(python, "-c", "import assay").Run(); err != nil {
		return "", errors.Join(fmt.Errorf("%s has no Python client: run make sdk, or name another interpreter by SDK_PYTHON", python), err)
	}
	return python, nil
}
