package dispatcher_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// assigned submits a job as the API does, as soon as it can be assigned to a worker.
func (f *fleet) assigned(d *replica) job.ID {
	f.Helper()
	return f.assignedBut(d, nil)
}

// assignedBut passes the dispatcher an error in place of the lease.
func (f *fleet) assignedBut(d *replica, said error) job.ID {
	f.Helper()
	j := newJob()
	f.until("a worker has room", func() bool { return d.Assign(&j) != nil })
	submitted := d.Assign(&j)
	_, issued, err := f.store.SubmitJob(f.Context(), j, store.Idempotency{}, 100)
	if err != nil || issued == nil || issued.Lease == 0 {
		f.Fatalf("issued %+v, error %v", issued, err)
	}
	if said != nil {
		issued = nil
	}
	submitted(f.Context(), issued, said)
	return j.ID
}

// TestAssign checks that a worker runs a job with a lease, without the queue and without a claim.
func TestAssign(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cfg := quick
	cfg.ScheduleEvery, cfg.RepublishAfter = never, never
	d := f.start(cfg, nil, nil)
	taken := make(chan control.Assignment, 1)
	w := f.work("w1", 2, succeed, func(w *worker) {
		w.beat, w.noAck = 7, true
		w.assign = func(a control.Assignment) error { taken <- a; return nil }
	})
	id := f.assigned(d)
	a := testenv.Receive(t, "the assignment", taken)
	if a.Claimed.Job != id || a.Claimed.Tenant != tenant || a.Beat != 7 || a.TTL.D() != quick.LeaseTTL {
		t.Errorf("the worker got %+v", a)
	}
	if s := f.state(id); s != job.Running {
		t.Errorf("the job is %s", s)
	}
	w.perform(t.Context(), t.Context(), a.Claimed, nil)
	if s := f.state(id); s != job.Finished {
		t.Errorf("the job is %s", s)
	}
	if n := w.ran(id); n != 0 {
		t.Errorf("it was claimed %d times, too", n)
	}
}

// TestAssignmentIsTakenBack checks that a job goes through the queue at once, without a charge, if its worker rejects
// it or is gone.
func TestAssignmentIsTakenBack(t *testing.T) {
	t.Parallel()
	for what, assign := range map[string]func(control.Assignment) error{
		"refused": func(control.Assignment) error { return errors.Join(job.ErrRefused, errors.New("full")) },
		"gone":    nil,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			d := f.start(quick, nil, nil)
			w := f.work("w1", 2, succeed, func(w *worker) { w.beat, w.assign = 7, assign; w.noAck = true })
			id := f.assigned(d)
			f.until("it is recorded", func() bool { return f.state(id) == job.Finished })
			if n := w.ran(id); n != 1 {
				t.Errorf("it was claimed %d times", n)
			}
			j, err := f.store.Job(t.Context(), tenant, id)
			if err != nil || j.State != job.Finished {
				t.Errorf("%+v, %v", j, err)
			}
		})
	}
}

// TestLeaseThatNobodyHeardOf checks that a job whose submit was committed with an unknown outcome goes through the
// queue at once.
func TestLeaseThatNobodyHeardOf(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	d := f.start(quick, nil, nil)
	w := f.work("w1", 2, succeed, func(w *worker) {
		w.beat, w.noAck = 7, true
		w.assign = func(control.Assignment) error { t.Error("it was assigned"); return nil }
	})
	id := f.assignedBut(d, fmt.Errorf("submit job: %w", job.ErrUnavailable))
	f.until("it is recorded", func() bool { return f.state(id) == job.Finished })
	if n := w.ran(id); n != 1 {
		t.Errorf("it was claimed %d times", n)
	}
}

// TestAssignmentUnanswered checks that an assignment is repeated if the answer is lost, and that the worker keeps the
// job.
func TestAssignmentUnanswered(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cfg := quick
	cfg.ScheduleEvery, cfg.RepublishAfter = never, never
	d := f.start(cfg, nil, nil)
	told := make(chan control.Assignment, 2)
	w := f.work("w1", 2, succeed, func(w *worker) {
		w.beat, w.noAck = 7, true
		w.assign = func(a control.Assignment) error {
			told <- a
			if len(told) == 1 {
				return fmt.Errorf("%w: taken, as it happens", job.ErrUnavailable)
			}
			return fmt.Errorf("%w: taken before", job.ErrConflict)
		}
	})
	id := f.assigned(d)
	f.until("it is told again", func() bool { return len(told) == 2 })
	w.perform(t.Context(), t.Context(), (<-told).Claimed, nil)
	if s := f.state(id); s != job.Finished {
		t.Errorf("the job is %s", s)
	}
	if n := w.ran(id); n != 0 {
		t.Errorf("it was claimed %d times, too", n)
	}
}
