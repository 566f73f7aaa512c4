package chaos

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// id returns the id in an answer of an accepted job.
func id(t *testing.T, answer string) job.ID {
	t.Helper()
	var a struct{ ID job.ID }
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.ID == "" {
		t.Fatalf("%q: %v", answer, err)
	}
	return a.ID
}

// unheard is the step with two right results. The worker's successor refuses the assignment, which
// is then revoked. Or the reaper detects the dead worker first, and there is a second lease.
const unheard = "before it hears of its lease"

// workerKilled kills a worker at every step of a job.
func workerKilled(t *testing.T) {
	for _, step := range []struct {
		name, script string
		until        func(f *fleet, id job.ID) bool
		before       func(f *fleet)
		again        bool // whether the job runs a second time
		assigned     bool // a single job, without a message
	}{
		{"before its claim is answered", "", func(f *fleet, id job.ID) bool { return f.row(id).State == job.Dispatched },
			func(f *fleet) { f.workers[0].nats.set(frozen) }, false, false},
		{unheard, "", func(f *fleet, id job.ID) bool { return f.row(id).State == job.Running },
			func(f *fleet) { f.workers[0].nats.set(frozen) }, false, true},
		{"after its claim", "sleep=6s", func(f *fleet, id job.ID) bool { return f.row(id).State == job.Running }, nil, true, false},
		{"after it was assigned", "sleep=6s", func(f *fleet, id job.ID) bool { return f.row(id).State == job.Running }, nil, true, true},
		{"after the upload", "artifact=/workspace/out:content sleep=6s", func(f *fleet, _ job.ID) bool { return len(f.stored()) == 1 }, nil, true, false},
		{"after the commit, before its ack", "artifact=/workspace/out:content sleep=2s", func(f *fleet, id job.ID) bool { return f.row(id).State == job.Finished }, nil, false, false},
		{"after the commit of what was assigned", "artifact=/workspace/out:content sleep=2s", func(f *fleet, id job.ID) bool { return f.row(id).State == job.Finished }, nil, false, true},
	} {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			lease := atLeast(4 * time.Second)
			if !step.again {
				lease = atLeast(30 * time.Second)
			}
			f := newFleet(t, shape{lease: lease})
			if step.before != nil {
				step.before(f)
			}
			var id job.ID
			if step.assigned {
				id = f.submit(step.script)
			} else {
				id = f.enqueue(scripted(step.script))
			}
			if strings.HasPrefix(step.name, "after the commit") {
				eventually(t, "its program runs", func() bool { return len(f.stored()) == 1 }) // the claim was answered
				f.workers[0].nats.set(deaf)                                                    // the result arrives; the answer does not
			}
			eventually(t, step.name, func() bool { return step.until(f, id) })
			f.workers[0].kill()
			f.workers[0].nats.set(whole)
			f.workers[0].start(t)
			f.until(id, job.Finished)
			if r := f.row(id); r.Tries != 1 || r.Outcome != string(job.Succeeded) {
				t.Errorf("%+v", r)
			}
			f.rested()
			v := f.judge()
			if v.lost+v.doubled+v.foreignArtifacts+v.missing != 0 || (v.again == 1) != step.again && step.name != unheard {
				t.Errorf("%+v", v)
			}
		})
	}
}

// A worker that was stopped past its lease resumes: its attempt is void, and its objects are
// deleted.
func workerPaused(t *testing.T) {
	f := newFleet(t, shape{})
	id := f.submit("artifact=/workspace/out:content sleep=2500ms")
	eventually(t, "an artifact is stored", func() bool { return len(f.stored()) == 1 })
	first := f.row(id)
	f.addWorker("worker1")
	f.workers[0].pause()
	f.until(id, job.Finished)
	r := f.row(id)
	if r.Worker != "worker1" || r.Lease <= first.Lease || r.Tries != 1 {
		t.Errorf("first %+v, then %+v", first, r)
	}
	f.workers[0].resume()
	eventually(t, "the artifacts of the void attempt are gone", func() bool { return f.judge().leaked == 0 })
	if f.check(); f.row(id) != r {
		t.Errorf("the record changed: %+v, %+v", r, f.row(id))
	}
}

// The old holder acknowledges its message while the job runs elsewhere.
func lateAck(t *testing.T) {
	f := newFleet(t, shape{})
	id := f.enqueue(scripted("sleep=6s"))
	f.until(id, job.Running)
	f.addWorker("worker1")
	f.workers[0].pause()
	eventually(t, "worker1 runs it", func() bool { r := f.row(id); return r.State == job.Running && r.Worker == "worker1" })
	f.workers[0].resume()
	eventually(t, "the old message is acknowledged", func() bool { return f.queued() == 1 })
	f.until(id, job.Finished)
	if r := f.row(id); r.Worker != "worker1" || r.Tries != 1 {
		t.Errorf("%+v", r)
	}
	f.check()
}
