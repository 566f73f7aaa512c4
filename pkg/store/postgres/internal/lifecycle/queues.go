package lifecycle

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

const (
	// walkEvery is how long a finished walk over the tenants of a class suffices while windows are full. Hints name new
	// tenants sooner, but a hint can be lost.
	walkEvery = 3 * time.Second
	// walkSteps is how many tenants of a class a look walks past on such a walk.
	walkSteps = 32
	// walkShare bounds the part of the time that walks take where windows stay empty: one in so many.
	walkShare = 20
	// leastIdle and mostIdle bound how long a queue with nothing to run is skipped.
	leastIdle, mostIdle = 20 * time.Millisecond, time.Second
)

// queues is the scheduler's cache of the tenants with queued jobs. All of it is a hint: a look verifies in rows the
// entries that it uses, and finds missing ones (walk). A new leader begins with an empty cache.
type queues struct {
	tenants map[int32]*waiter
	walks   map[string]*walk // by class
	looks   uint64
	cheap   time.Duration // cheapVisit, or another one in tests
	skipped int           // mostSkipped, or another one in tests
	least   int           // jobs that a visit looks for at least, in tests
	counted counted
}

// waiter is a tenant that has, or had lately, queued jobs.
type waiter struct {
	id     int32
	since  time.Time // of its last place, or of its first queued job
	queues []*queue

	read       bool // the settings
	weight     float64
	maxRunning int
	labelCaps  job.LabelCaps
	paused     bool
}

// queue is the jobs of a tenant that wait in a class.
type queue struct {
	class string
	idle  time.Time // no job in it may run before
	tries int       // consecutive visits that found nothing to run
	aged  *int32    // the priority below which the next visit looks for jobs that have aged; nil: it sees all
	hints uint64    // how often it was named
	look  uint64    // last look that considered it
	front front

	batches int // that the last visit saw; 0: none, or no visit yet
}

// walk goes over the tenants of a class in the order of their ids.
type walk struct {
	after int32         // the last one; 0: it begins
	ended time.Time     // the last complete one
	spent time.Duration // by this one, so far
	cost  time.Duration // of the last complete one
}

func newQueues() *queues {
	return &queues{tenants: map[int32]*waiter{}, walks: map[string]*walk{}, cheap: cheapVisit, skipped: mostSkipped}
}

// at returns a queue, which it adds if it is new.
func (qs *queues) at(tenant int32, class string, now time.Time) *queue {
	w := qs.tenants[tenant]
	if w == nil {
		w = &waiter{id: tenant, since: now}
		qs.tenants[tenant] = w
	}
	for _, q := range w.queues {
		if q.class == class {
			return q
		}
	}
	q := &queue{class: class}
	w.queues = append(w.queues, q)
	return q
}

// hear takes the hints of this process.
func (qs *queues) hear(n *pg.News, now time.Time) {
	h := n.Take()
	for _, k := range h.Queues {
		q := qs.at(k.Tenant, k.Class, now)
		q.hints++
		q.idle, q.tries = time.Time{}, 0
		q.front.doubt()
	}
	if !h.Requeued && !h.Settings {
		return
	}
	for _, w := range qs.tenants {
		w.read = w.read && !h.Settings
		for _, q := range w.queues {
			q.idle, q.tries = time.Time{}, 0
			q.front.doubt()
		}
	}
	for _, w := range qs.walks {
		w.ended = time.Time{}
	}
}

// walkOf returns the walk of a class.
func (qs *queues) walkOf(class string) *walk {
	w := qs.walks[class]
	if w == nil {
		w = &walk{}
		qs.walks[class] = w
	}
	return w
}

// due returns which of the classes a look walks on in, and how far, if it has so many places.
func (qs *queues) due(classes []string, places int, now time.Time) (due []string, steps int) {
	steps = walkSteps
	for _, c := range classes {
		w := qs.walkOf(c)
		switch {
		case w.cost == 0: // the first one
			steps = max(steps, places+walkSteps)
			due = append(due, c)
		case w.after > 0 || now.Sub(w.ended) >= max(walkEvery, walkShare*w.cost):
			due = append(due, c)
		}
	}
	if len(due) > 16 { // another part in each look
		first := int(now.UnixNano()/int64(time.Millisecond)) % len(due)
		due = slices.Concat(due[first:], due[:first])[:16]
	}
	return due, steps
}

// may reports whether a look that found places empty walks over a class once more.
func (w *walk) may(now time.Time) bool {
	return w.after > 0 || w.cost < 5*time.Millisecond || now.Sub(w.ended) >= walkShare*w.cost
}

// note stores the result of a walk.
func (w *walk) note(last int32, ended bool, took time.Duration, now time.Time) {
	w.spent += took
	w.after = last
	if ended {
		w.after, w.ended, w.cost, w.spent = 0, now, max(w.spent, 1), 0
	}
}

// yield puts a queue behind the tenant's others, if a look visits only a part of them.
func (w *waiter) yield(q *queue) {
	if len(w.queues) > queuesAtOnce {
		w.queues = append(slices.DeleteFunc(w.queues, func(o *queue) bool { return o == q }), q)
	}
}

// drop forgets a queue that has no jobs, unless it was named again since.
func (qs *queues) drop(tenant int32, q *queue, hints uint64) {
	w := qs.tenants[tenant]
	if w == nil || q.hints != hints {
		return
	}
	w.queues = slices.DeleteFunc(w.queues, func(o *queue) bool { return o == q })
	if len(w.queues) == 0 {
		delete(qs.tenants, tenant)
	}
}

// rest skips a queue for a while because nothing in it may run.
func (qs *queues) rest(q *queue, now time.Time) {
	q.tries = min(q.tries+1, 10)
	most := max(200*time.Millisecond, min(mostIdle, time.Duration(len(qs.tenants))*time.Millisecond))
	q.idle = now.Add(min(leastIdle<<q.tries, most))
}

// settings stores the database's settings of a tenant.
func (w *waiter) settings(weight float64, maxRunning int, caps []byte, paused bool) error {
	w.weight, w.maxRunning, w.paused, w.read = weight, maxRunning, paused, true
	w.labelCaps = nil
	if len(caps) == 0 {
		return nil
	}
	return json.Unmarshal(caps, &w.labelCaps)
}

// stale returns the tenants whose settings a look must read: those not read yet, and some others.
func (qs *queues) stale(others int) []int32 {
	ids := qs.unread()
	for id, w := range qs.tenants { // in another order each time
		if others == 0 {
			break
		}
		if w.read {
			ids = append(ids, id)
			others--
		}
	}
	return ids
}

// unread returns the tenants whose settings were not read yet.
func (qs *queues) unread() []int32 {
	ids := []int32{}
	for id, w := range qs.tenants {
		if !w.read {
			ids = append(ids, id)
		}
	}
	return ids
}

// positions returns how far the walks of some classes have come.
func (qs *queues) positions(classes []string) []int32 {
	after := make([]int32, len(classes))
	for i, c := range classes {
		after[i] = qs.walkOf(c).after
	}
	return after
}

func (qs *queues) readSettings(rows pgx.Rows) error {
	var id int32
	var weight float64
	var maxRunning int
	var caps []byte
	var paused bool
	_, err := pgx.ForEachRow(rows, []any{&id, &weight, &maxRunning, &caps, &paused}, func() error {
		if w := qs.tenants[id]; w != nil {
			return w.settings(weight, maxRunning, caps, paused)
		}
		return nil
	})
	return err
}

// readWalk reads which tenants the walks of a look over some classes have met since began.
func (qs *queues) readWalk(rows pgx.Rows, classes []string, look, began time.Time) error {
	last, ended := qs.positions(classes), make([]bool, len(classes))
	var nth int
	var tenant *int32
	if _, err := pgx.ForEachRow(rows, []any{&nth, &tenant}, func() error {
		if tenant == nil {
			ended[nth-1] = true
			return nil
		}
		qs.at(*tenant, classes[nth-1], look)
		last[nth-1] = *tenant
		return nil
	}); err != nil {
		return err
	}
	now := time.Now()
	for i, c := range classes {
		qs.walkOf(c).note(last[i], ended[i], now.Sub(began)/time.Duration(len(classes)), now)
	}
	return nil
}
