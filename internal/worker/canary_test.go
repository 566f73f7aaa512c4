package worker

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/fake"
)

// proving makes the worker run canary jobs, whose errors fails returns.
func proving(fails func(policy.Isolation) error) option {
	return func(c *Config, p *Parts) {
		rt := fake.New(nil)
		rt.FailProve = fails
		c.CanaryImage, p.Runtime = "python", rt
	}
}

// A worker without a working isolation reports that, and takes no jobs until one works.
func TestNoJobBeforeTheCanary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var works atomic.Bool
		b := start(t, newFleet(), proving(func(policy.Isolation) error {
			if works.Load() {
				return nil
			}
			return errors.New("no room for a sandbox")
		}))
		id := b.submit(t, script("exit=0"))
		time.Sleep(10 * time.Minute)
		err := b.w.Ready()
		if err == nil || !strings.Contains(err.Error(), "no room for a sandbox") {
			t.Errorf("ready = %v", err)
		}
		if n := b.row(id).claims; n != 0 {
			t.Errorf("the job was claimed %d times", n)
		}
		told := b.w.info()
		if len(told.Host.Isolations) != 0 || len(told.Offer.Isolations) != 0 || !strings.Contains(told.Held, "no room for a sandbox") {
			t.Errorf("told the dispatchers %+v", told)
		}
		works.Store(true)
		if res := b.recorded(id); res.Outcome != job.Succeeded {
			t.Errorf("result = %+v", res)
		}
		if err := b.w.Ready(); err != nil {
			t.Errorf("ready = %v", err)
		}
		if told := b.w.info(); told.Held != "" || len(told.Host.Missing) != 0 {
			t.Errorf("told the dispatchers %+v", told)
		}
	})
}

// An isolation whose canary job fails is not offered, but the others are. A transient failure has
// no effect.
func TestOnlyWhatTheCanaryRanAtIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		b := start(t, newFleet(), proving(func(i policy.Isolation) error {
			switch {
			case i == policy.Cell:
				return errors.New("no user namespaces")
			case tries == 0:
				tries++
				return errors.New("a hiccup")
			}
			return nil
		}))
		id := b.submit(t, script("exit=0"))
		b.recorded(id)
		host := b.w.info().Host
		if d := cmp.Diff([]policy.Isolation{policy.Task}, host.Isolations); d != "" {
			t.Errorf("isolations (-want +got):\n%s", d)
		}
		if len(host.Missing) != 1 || !strings.Contains(host.Missing[0], "isolation cell") || !strings.Contains(host.Missing[0], "no user namespaces") {
			t.Errorf("missing = %q", host.Missing)
		}
		if d := cmp.Diff(host.Isolations, b.w.info().Offer.Isolations); d != "" {
			t.Errorf("offer (-host +offer):\n%s", d)
		}
	})
}
