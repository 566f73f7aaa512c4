package fleet

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// complainEvery is the period of complaints about a refused process.
const complainEvery = time.Minute

// process is one of the processes that used a worker's name.
type process struct {
	worker string
	since  store.Incarnation
}

// report is the last heartbeat of a process, and its time.
type report struct {
	control.WorkerInfo
	at time.Time
}

// RecordHeartbeat records a heartbeat. It reports whether the worker has more slots than before. It ignores the slots of a
// process if a later one uses its name.
func (f *Fleet) RecordHeartbeat(w control.WorkerInfo) (grown bool) {
	w.Offer.Exclusive = f.pools.Exclusive(w.Pool)
	p := process{w.ID, store.IncarnationOf(w.StartedAt)}
	f.mu.Lock()
	f.dirty[p] = report{w, time.Now()}
	before, known := f.members[w.ID]
	if known && p.since < before.since {
		f.mu.Unlock()
		return false // refused
	}
	m := memberOf(w.Pool, w.Slots, busySlots(w.Slots, w.Busy, w.Held), w.Draining, w.Offer)
	m.load, m.sessions = loadOf(w), sessionsOf(w.Tally)
	m.since, m.rests, m.cordoned, m.heard = p.since, before.rests, before.cordoned, lastBeat{time.Now(), w.StartedAt, w.Beat}
	f.put(w.ID, m)
	f.mu.Unlock()
	if w.Protocol > control.Protocol && (!known || before.since != m.since) {
		f.log.Warn("worker of a newer release; upgrade dispatchers first", "worker", w.ID, "version", w.Version, "speaks", w.Protocol, "here", control.Protocol)
	}
	if !known || before.Slots != m.Slots || before.since != m.since {
		f.Look()
	}
	return m.Slots > before.Slots
}

// RecordResults notes that a worker brought attempts of jobs to a result.
func (f *Fleet) RecordResults(worker string, jobs []job.ID) { f.health.recordResults(worker, jobs) }

// GaveUp notes that a worker gave up attempts for reasons other than the jobs.
func (f *Fleet) GaveUp(worker string, jobs []job.ID) { f.health.failed(worker, jobs) }

// Refuses reports whether a later process than since uses the worker's name, and returns the start of that process.
// It accepts processes that do not report their start (0).
func (f *Fleet) Refuses(worker string, since store.Incarnation) (owner store.Incarnation, refused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	owner = f.members[worker].since
	return owner, since != 0 && since < owner
}

// Complain reports whether a complaint about a refused process is due. It returns true once per complainEvery.
func (f *Fleet) Complain(worker string, since store.Incarnation) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := process{worker, since}
	for old, at := range f.told { // few
		if time.Since(at) > complainEvery {
			delete(f.told, old)
		}
	}
	if _, told := f.told[p]; told {
		return false
	}
	f.told[p] = time.Now()
	return true
}

// busySlots counts the slots that take no job now: all of them if the worker is held back.
func busySlots(slots, busy int, held string) int {
	if held != "" {
		return slots
	}
	return busy
}

func memberOf(pool string, slots, taken int, draining bool, offer placement.Offer) member {
	m := member{pool: pool, offer: offer, draining: draining}
	if !draining {
		m.Size = Size{slots, max(slots-taken, 0)}
	}
	return m
}

// memberOf returns the member for a worker read from the store.
func (f *Fleet) memberOf(w store.Worker) member {
	m := memberOf(w.Pool, w.Slots, busySlots(w.Slots, w.InUse, w.Held), w.Draining, f.offerOf(w))
	m.load, m.sessions = w.Load, sessionsOf(w.Tally)
	m.since, m.cordoned = store.IncarnationOf(w.StartedAt), w.Cordon != nil
	if w.Quarantine != nil {
		m.rests = time.Now().Add(w.Quarantine.Left)
	}
	return m
}

// offerOf returns the offer of a worker read from the store. Workers of another version offer nothing special.
func (f *Fleet) offerOf(w store.Worker) (offer placement.Offer) {
	_ = json.Unmarshal(w.Offer, &offer)
	offer.Exclusive = f.pools.Exclusive(w.Pool)
	return offer
}

func (f *Fleet) writeDown(ctx context.Context) error {
	f.mu.Lock()
	dirty := f.dirty
	f.dirty = map[process]report{}
	f.mu.Unlock()
	if len(dirty) == 0 {
		return nil
	}
	ws := make([]store.Worker, 0, len(dirty))
	for _, w := range dirty {
		d := describe(w.WorkerInfo)
		d.Silence = time.Since(w.at)
		ws = append(ws, d)
	}
	err := f.store.PutWorkers(ctx, ws)
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		maps.Copy(dirty, f.dirty)
		f.dirty = dirty
	}
	return err
}

func describe(w control.WorkerInfo) store.Worker {
	host, err := json.Marshal(w.Host)
	if err != nil {
		host = nil // plain data; cannot fail
	}
	offer, err := json.Marshal(w.Offer)
	if err != nil {
		offer = nil // plain data; cannot fail
	}
	return store.Worker{ID: w.ID, Pool: w.Pool, Version: w.Version, Slots: w.Slots, InUse: w.Busy, Load: loadOf(w),
		Draining: w.Draining, Held: w.Held, Tally: w.Tally, StartedAt: w.StartedAt, Host: host, Offer: offer}
}
