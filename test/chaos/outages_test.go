package chaos

import (
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// NATS is repeatedly away for longer than a lease, while short jobs run on all workers. No job is
// blamed for it.
func outages(t *testing.T) {
	f := newFleet(t, shape{workers: 2, lease: atLeast(4 * time.Second)})
	const slots = 16
	f.batch(slots+4, always("sleep="+(2*f.lease).String()))
	for range *outageCount {
		eventually(t, "every slot is taken", func() bool { return f.in(job.Running) == slots })
		f.restartNATS(func() { time.Sleep(*outageFor) })
		within(t, 2*time.Minute, "what ran was taken back", func() bool {
			return f.count("SELECT count(*) FROM attempts WHERE reason = 'lost'") > 0
		})
		f.exec("UPDATE jobs SET not_before = NULL") // backoff is not tested here
	}
	within(t, 5*time.Minute, "every job is over", func() bool {
		return f.count("SELECT count(*) FROM jobs WHERE state NOT IN ('finished', 'canceled')") == 0
	})
	f.check()
	if n := f.count("SELECT count(*) FROM jobs WHERE outcome <> 'succeeded'"); n > 0 {
		t.Errorf("%d innocent jobs did not succeed", n)
	}
	eventually(t, "no suspicion is left, since every worker was heard of again", func() bool {
		return f.count("SELECT count(*) FROM blames") == 0
	})
}

// A worker that is killed and started again hands back its jobs at once. Even with leases as in
// production, no job waits until they are over.
func restartedWorker(t *testing.T) {
	f := newFleet(t, shape{lease: 30 * time.Second})
	f.batch(8, always("sleep=2s"))
	eventually(t, "all run", func() bool { return f.in(job.Running) == 8 })
	f.workers[0].kill()
	f.workers[0].start(t)
	f.check()
	if n := f.count("SELECT count(*) FROM attempts WHERE message LIKE '%was started anew'"); n != 8 {
		t.Errorf("%d attempts were handed back by the new process, want 8", n)
	}
	if n := f.count("SELECT count(*) FROM jobs WHERE outcome <> 'succeeded'"); n > 0 {
		t.Errorf("%d jobs did not succeed", n)
	}
}
