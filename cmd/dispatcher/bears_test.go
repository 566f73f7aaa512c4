package main

import (
	"errors"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/pkg/job"
)

func TestWhatAMachineBears(t *testing.T) {
	for _, c := range []struct {
		machine
		bodies   job.Size
		requests int
	}{
		{machine{job.GiB, true, 1 << 20}, 256 * job.MiB, 8192}, // the chart's
		{machine{2 * job.GiB, false, 1 << 20}, 256 * job.MiB, 8192},
		{machine{256 * job.MiB, true, 1 << 20}, 128 * job.MiB, 4096},
		{machine{1 << 50, false, 1 << 20}, job.GiB, 32768},
		{machine{1 << 50, false, 1024}, job.GiB, 768},
		{machine{job.GiB, true, 1 << 63}, 256 * job.MiB, 8192}, // no limit
	} {
		bodies, requests, err := c.bears()
		if err != nil || bodies != c.bodies || requests != c.requests {
			t.Errorf("%+v: %s of bodies and %d requests, %v; want %s and %d", c.machine, bodies, requests, err, c.bodies, c.requests)
		}
		if err := (httpapi.Limits{Memory: bodies, Requests: requests}).Check(); err != nil {
			t.Errorf("%+v: what the API promises does not fit: %v", c.machine, err)
		}
	}
	if _, _, err := (machine{job.GiB, true, 100}).bears(); !errors.Is(err, errFiles) {
		t.Errorf("a hundred files: %v", err)
	}
	m, err := thisMachine()
	if err != nil || m.Memory < 64*job.MiB || m.Files < 256 {
		t.Errorf("this machine: %+v, %v", m, err)
	}
}
