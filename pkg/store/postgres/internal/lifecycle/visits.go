package lifecycle

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
	"github.com/assay-run/assay/pkg/store/postgres/internal/turns"
)

const (
	// firstTiers is how many priorities of a queue a visit looks into, from the highest on. Where
	// there are more, agedTiers of the others take turns: jobs in them may have aged.
	firstTiers, agedTiers = 8, 2
	// queuesAtOnce is how many classes of a tenant a look visits, if the tenant gets no more places.
	queuesAtOnce = 4
	// mostDeepened is how often a look visits queues again that had more than was read.
	mostDeepened = 6
	// lanesAtOnce is how many lanes a look steps through for the capped batches of a tenant, besides
	// as many as the tenant holds jobs.
	lanesAtOnce = 1000
)

// visit is a look at one queue of a tenant.
type visit struct {
	entry *entry
	q     *queue
	hints uint64 // of the queue, before

	wants, most int // jobs, and priorities to look into
	ahead       int // jobs of a batch to read at once, at least
	deepened    int
	cost        time.Duration // of reading it; 0: it was remembered
	rows        int           // batches that it saw
	found       bool          // jobs that may run
	skips       bool          // it left batches to the next look
	complete    bool          // it saw all batches
	tiers       map[string]bool
}

// source is the queued jobs of a batch with one priority, in one class and lane.
type source struct {
	turns.Source
	visit     *visit
	batch     turns.ID
	priority  int32
	lane      int32
	after     turns.ID // before its first job
	room      int      // in a lane: jobs at most
	lanes     bool     // it stands for lanes that were not read
	batchCaps job.LabelCaps
}

// fetch reads the jobs that Fill lacked.
func (l *look) fetch(ctx context.Context, short []turns.Shortage) error {
	var visits []*visit
	var groups []lanesOf
	var more []want
	for _, s := range short {
		e := l.entries[s.Tenant.Index]
		if s.Group == nil {
			visits = append(visits, l.plan(e, s.Places)...)
			continue
		}
		for _, src := range e.sources[s.Group] {
			switch {
			case src.More && src.lanes: // then all of the tenant, since they may have no room
				groups = append(groups, e.takeLanes()...)
			case src.More:
				more = append(more, want{src, s.Places})
			}
		}
	}
	if err := l.visit(ctx, visits); err != nil {
		return err
	}
	if err := l.readLanes(ctx, groups); err != nil {
		return err
	}
	return l.readJobs(ctx, more)
}

// plan returns the visits that find so many jobs of a tenant.
func (l *look) plan(e *entry, places int) (vs []*visit) {
	n := min(len(e.pending), max(places, queuesAtOnce))
	for _, q := range e.pending[:n] {
		v := &visit{entry: e, q: q, hints: q.hints, wants: max(e.Read+places, l.s.queues.least), most: firstTiers, tiers: map[string]bool{}}
		if q.front.dear {
			v.wants = max(v.wants, batchesAbreast) // to see all of a small queue
		}
		if q.batches > 0 { // the jobs that one batch, or a few, have to give are read with their heads
			v.ahead = (v.wants + q.batches - 1) / q.batches
		}
		e.visits, l.visited = append(e.visits, v), append(l.visited, v)
		if !l.recall(v) {
			vs = append(vs, v)
		}
	}
	e.pending = e.pending[n:]
	e.settle()
	e.Read += places
	if n > 0 {
		return vs
	}
	// All are visited, and had more than was read: they are read again, and deeper.
	e.Groups, e.groups, e.sources = nil, nil, nil
	for _, v := range e.visits {
		v.wants, v.most, v.complete, v.rows = max(4*v.wants, e.Read), 8*v.most, false, 0
		v.deepened++
		vs = append(vs, v)
	}
	return vs
}

// walkDown is one way down the priorities of a queue.
type walkDown struct {
	*visit
	above int32 // minus the priority that it begins below
	most  int32 // priorities
	aged  bool  // it looks for jobs that have aged, below those of the highest priorities
	seen  []int32
	ended bool // it reached the last priority
	cut   bool // it left batches out
}

// visit reads the heads of some queues.
func (l *look) visit(ctx context.Context, vs []*visit) error {
	if len(vs) == 0 {
		return nil
	}
	var downs []*walkDown
	for _, v := range vs {
		downs = append(downs, &walkDown{visit: v, above: math.MinInt32, most: int32(v.most)})
		if v.q.aged != nil {
			downs = append(downs, &walkDown{visit: v, above: -*v.q.aged, most: agedTiers, aged: true})
		}
	}
	n := len(downs)
	classes, tenants, wants := make([]string, n), make([]int32, n), make([]int32, n)
	above, tiers, ahead := make([]int32, n), make([]int32, n), make([]int32, n)
	for i, d := range downs {
		classes[i], tenants[i], wants[i], above[i], tiers[i], ahead[i] = d.q.class, d.entry.ID, int32(d.wants), d.above, d.most, int32(d.ahead)
	}
	began := time.Now()
	rows, err := l.conn.Query(ctx, headsSQL, classes, tenants, wants, above, tiers, max(l.s.queues.skipped/len(vs), leastSkipped),
		l.s.rounds.places(time.Now()), l.heldJSON(vs), l.rules.Quantum, ahead)
	if err != nil {
		return err
	}
	if err := l.readHeads(rows, downs); err != nil {
		return err
	}
	for _, d := range downs {
		d.settle()
	}
	for _, v := range vs {
		v.cost = max(time.Since(began), 1)
		v.q.batches = v.rows
		v.entry.settle()
	}
	return nil
}

// heldJSON is the places that batches of the visited tenants hold, as heads.sql reads it.
func (l *look) heldJSON(vs []*visit) string {
	held := map[string]int{}
	for _, v := range vs {
		if h := l.held[v.entry.ID]; h != nil {
			for batch, n := range h.batches {
				held[strconv.Itoa(int(v.entry.ID))+" "+uuid(batch).String()] = n
			}
		}
	}
	b, _ := json.Marshal(held) // strings and numbers
	return string(b)
}

// settle notes how far down a queue was seen, and where the next look seeks jobs that have
// aged.
func (d *walkDown) settle() {
	switch all := d.ended || len(d.seen) == 0; {
	case !d.aged && all:
		d.complete, d.q.aged = !d.cut, nil
	case all:
		d.q.aged = nil // the next look begins again below the highest priorities
	case d.aged || d.q.aged == nil:
		d.q.aged = &d.seen[min(len(d.seen), int(d.most))-1]
	}
}

// settle notes whether a tenant has more than was read.
func (e *entry) settle() {
	e.More = len(e.pending) > 0
	for _, v := range e.visits {
		e.More = e.More || !v.complete && !v.skips && v.deepened < mostDeepened
	}
}

// head is a row of heads.sql.
type head struct {
	nth             int
	priority, lane  *int32
	batch           pgtype.UUID
	capped, allowed bool
	ids             []pgtype.UUID
	age             *int64 // milliseconds
	caps            []byte
	finds, skips    bool
	cut             bool // there may be more batches of the priority
}

func (l *look) readHeads(rows pgx.Rows, downs []*walkDown) error {
	var h head
	_, err := pgx.ForEachRow(rows, []any{&h.nth, &h.priority, &h.batch, &h.lane, &h.capped, &h.allowed, &h.ids, &h.age, &h.caps, &h.finds, &h.skips, &h.cut}, func() error {
		d := downs[h.nth-1]
		if h.priority == nil {
			d.ended = true
			return nil
		}
		if n := len(d.seen); n == 0 || d.seen[n-1] != *h.priority {
			d.seen = append(d.seen, *h.priority)
		}
		d.rows++
		d.cut = d.cut || h.cut
		l.noteRound(d.visit, h)
		if !h.allowed {
			return nil
		}
		return l.add(d.visit, h)
	})
	return err
}

// noteRound stores the end of the round of a tier.
func (l *look) noteRound(v *visit, h head) {
	tier := tierOf(v.entry.ID, *h.priority, v.q.class)
	v.tiers[tier] = true
	end := roundEnd{tier: tier, found: h.finds, place: place{Batch: pg.JobID(h.batch), Lane: int64(*h.lane)}}
	switch {
	case h.skips:
		end.what, v.skips = roundGoesOn, true
	case h.finds:
		end.what = roundEnds
	default:
		return
	}
	l.ends = append(l.ends, end)
}

// add adds the job or group of a head to the tenant.
func (l *look) add(v *visit, h head) error {
	e, key := v.entry, groupKey{h.batch.Bytes, *h.priority}
	g := l.groupOf(e, key)
	if len(h.ids) == 0 && !h.capped {
		return nil // all of its jobs wait
	}
	for _, src := range e.sources[g] {
		if src.visit == v && src.lanes == h.capped {
			return nil // by the other way down
		}
	}
	g.Age = max(g.Age, time.Duration(*h.age)*time.Millisecond)
	src := &source{visit: v, batch: key.batch, priority: key.priority, lanes: h.capped}
	if h.capped {
		src.More = true
		if len(h.caps) > 0 {
			if err := json.Unmarshal(h.caps, &src.batchCaps); err != nil {
				return err
			}
		}
	} else {
		for _, id := range h.ids {
			src.Jobs = append(src.Jobs, turns.Job{ID: id.Bytes})
		}
		src.after = before(src.Jobs[0].ID)
		src.More, v.found = len(h.ids) >= max(l.rules.Quantum-g.Held, v.ahead, 1), true
	}
	e.attach(g, src)
	return nil
}

// groupOf returns a group of a tenant, which it adds if it is new.
func (l *look) groupOf(e *entry, key groupKey) *turns.Group {
	if g := e.groups[key]; g != nil {
		return g
	}
	g := &turns.Group{Batch: key.batch, Priority: key.priority}
	if held := l.held[e.ID]; held != nil {
		g.Held = held.batches[key.batch]
	}
	if e.groups == nil {
		e.groups, e.sources = map[groupKey]*turns.Group{}, map[*turns.Group][]*source{}
	}
	e.groups[key] = g
	e.Groups = append(e.Groups, g)
	return g
}

func (e *entry) attach(g *turns.Group, src *source) {
	e.sources[g] = append(e.sources[g], src)
	g.Sources = append(g.Sources, &src.Source)
}
