package lifecycle

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/turns"
)

const (
	// batchesAbreast is how many batches of a tenant's priority share a window that has room
	// for more: each then takes several places in a turn. With many live batches that keeps a look, and
	// the counters that a bulk of results adds to, few.
	batchesAbreast = 64
	// freshSettings is how many cached settings of tenants a look reads again.
	freshSettings = 32
	// mostRevisited is how many queues without runnable jobs a look visits again while places are empty.
	mostRevisited = 256
)

// look is one look of the scheduler into the queues of some classes. Its lock makes several schedulers share one window
// and the limits of a tenant. It counts held places from rows (a crash could leave a counter wrong), and package turns
// fills the places. For that it reads only the queues of the tenants that get places: see visits.go.
//
// The guard on the state in dispatch.sql makes a look safe beside any other statement.
type look struct {
	s       *Transitions
	conn    *pgx.Conn // in the look's transaction
	classes []string
	window  int
	number  uint64
	began   time.Time

	rules    turns.Rules
	held     map[int32]*holding
	tenants  []*turns.Tenant
	entries  []*entry // of the tenants, by their Index
	byTenant map[int32]*entry

	cappedHeld map[string]int // by cap

	visited []*visit
	rested  bool // it considers queues that had nothing to run
	left    bool // time was over before everything was read
	full    bool // the window had no room
	ends    []roundEnd
	picks   []turns.Pick
}

// holding is the jobs of a tenant that are dispatched or running.
type holding struct {
	jobs    int
	batches map[turns.ID]int
}

// entry is a tenant that a look considers.
type entry struct {
	turns.Tenant
	of      *waiter
	pending []*queue // not visited yet
	visits  []*visit
	groups  map[groupKey]*turns.Group
	sources map[*turns.Group][]*source
	capped  bool // its capped jobs are counted
}

type groupKey struct {
	batch    turns.ID
	priority int32
}

func newLook(s *Transitions, classes []string, window int) *look {
	s.queues.looks++
	l := &look{s: s, classes: classes, window: window, number: s.queues.looks, began: time.Now(), held: map[int32]*holding{}, byTenant: map[int32]*entry{}, cappedHeld: map[string]int{}}
	l.rules = turns.Rules{Quantum: max((window+batchesAbreast-1)/batchesAbreast, 1), AgeEvery: s.cfg.AgeEvery, Room: map[string]int{}}
	return l
}

// run fills the places and returns the dispatched jobs, in one transaction. Its first statement travels with the
// statements of begin, and its last one with those of dispatch.
func (l *look) run(ctx context.Context) ([]store.Dispatch, error) {
	l.s.queues.hear(&l.s.db.News, l.began)
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	if !l.full {
		if err := l.enlist(ctx, func(q *queue) bool { return !q.idle.After(l.began) }); err != nil {
			return nil, err
		}
		if err := l.choose(ctx); err != nil {
			return nil, err
		}
	}
	return l.dispatch(ctx)
}

// begin takes the lock and reads the held places, the settings of some tenants and, as far as a walk is due, the
// tenants with queued jobs. It takes one round trip and several snapshots: those after the lock see the commits of its
// last holder.
func (l *look) begin(ctx context.Context) error {
	qs, b := l.s.queues, &pgx.Batch{}
	limit := lookStatement.String()
	b.Queue("BEGIN")
	b.Queue(`SELECT now(), set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true)`, limit)
	b.Queue(noLook)
	since := qs.counted.from(l.began)
	b.Queue(heldSQL, l.classes, l.window, pgtype.Timestamptz{Time: since, Valid: true, InfinityModifier: infiniteIfZero(since)})
	b.Queue(settingsSQL, qs.stale(freshSettings))
	due, steps := qs.due(l.classes, l.window, l.began)
	if len(due) > 0 {
		b.Queue(walkSQL, due, qs.positions(due), steps)
	}
	res := l.conn.SendBatch(ctx, b)
	defer res.Close()
	if _, err := res.Exec(); err != nil {
		return err
	}
	var now time.Time // of Postgres: the clocks may differ
	if err := res.QueryRow().Scan(&now, nil, nil); err != nil {
		return err
	}
	if _, err := res.Exec(); err != nil {
		return err
	}
	if err := l.readHeld(res, now, since.IsZero()); err != nil {
		return err
	}
	rows, err := res.Query()
	if err != nil {
		return err
	}
	if err := qs.readSettings(rows); err != nil {
		return err
	}
	if len(due) > 0 {
		began := time.Now()
		rows, err := res.Query()
		if err != nil {
			return err
		}
		if err := qs.readWalk(rows, due, l.began, began); err != nil {
			return err
		}
	}
	return res.Close()
}

// infiniteIfZero has the zero time stand for the beginning of all times.
func infiniteIfZero(t time.Time) pgtype.InfinityModifier {
	if t.IsZero() {
		return pgtype.NegativeInfinity
	}
	return pgtype.Finite
}

// readHeld reads the jobs that are held; all reports whether the oldest are among them.
func (l *look) readHeld(res pgx.BatchResults, now time.Time, all bool) error {
	began := time.Now()
	rows, err := res.Query()
	if err != nil {
		return err
	}
	var tenant int32
	var batch pgtype.UUID
	var n, waits, taken int
	var first time.Time
	oldest := now
	_, err = pgx.ForEachRow(rows, []any{&tenant, &batch, &n, &waits, &first}, func() error {
		if first.Before(oldest) {
			oldest = first
		}
		h := l.held[tenant]
		if h == nil {
			h = &holding{batches: map[turns.ID]int{}}
			l.held[tenant] = h
		}
		h.jobs += n
		h.batches[batch.Bytes] += n
		taken += waits
		return nil
	})
	l.rules.Places = max(l.window-taken, 0)
	l.full = l.rules.Places == 0
	if err == nil && !l.full { // then it has read the running jobs
		l.s.queues.counted.note(oldest, all, time.Since(began), l.s.queues.cheap, began)
	}
	return err
}

// enlist has the look consider more queues of its classes.
func (l *look) enlist(ctx context.Context, wanted func(*queue) bool) error {
	if err := l.readMissing(ctx); err != nil {
		return err
	}
	ours := make(map[string]bool, len(l.classes))
	for _, c := range l.classes {
		ours[c] = true
	}
	for _, w := range l.s.queues.tenants {
		if w.paused || !w.read {
			continue
		}
		for _, q := range w.queues {
			if q.look == l.number || !ours[q.class] || !wanted(q) {
				continue
			}
			q.look = l.number
			e := l.byTenant[w.id]
			if e == nil {
				e = l.newEntry(w)
			}
			e.pending = append(e.pending, q)
			e.More = true
		}
	}
	return nil
}

func (l *look) newEntry(w *waiter) *entry {
	e := &entry{of: w}
	e.Tenant = turns.Tenant{ID: w.id, Index: len(l.entries), Weight: w.weight, MaxRunning: w.maxRunning, Waits: l.began.Sub(w.since)}
	if h := l.held[w.id]; h != nil {
		e.Held = h.jobs
	}
	l.entries, l.tenants = append(l.entries, e), append(l.tenants, &e.Tenant)
	l.byTenant[w.id] = e
	return e
}

// readMissing reads the settings of tenants that are new.
func (l *look) readMissing(ctx context.Context) error {
	ids := l.s.queues.unread()
	if len(ids) == 0 {
		return nil
	}
	rows, err := l.conn.Query(ctx, settingsSQL, ids)
	if err != nil {
		return err
	}
	return l.s.queues.readSettings(rows)
}

// choose fills the places, and reads the jobs for that.
func (l *look) choose(ctx context.Context) error {
	for first := true; ; first = false {
		picks, short := turns.Fill(l.rules, l.tenants)
		l.picks = picks
		spent := time.Since(l.began)
		late := !first && (spent > lookWork && len(picks) > 0 || spent > lookTime/2)
		switch {
		case len(short) > 0 && late:
			l.left = true
			return nil
		case len(short) > 0:
			if err := l.fetch(ctx, short); err != nil {
				return err
			}
		case len(picks) == l.rules.Places || late:
			return nil
		default:
			more, err := l.widen(ctx)
			if err != nil || !more {
				return err
			}
		}
	}
}

// widen finds more to consider if places would stay empty: tenants without a hint, and queues in which nothing could
// run a moment ago.
func (l *look) widen(ctx context.Context) (more bool, err error) {
	qs := l.s.queues
	var due []string
	for _, c := range l.classes {
		if w := qs.walkOf(c); w.ended.Before(l.began) && w.may(l.began) {
			due = append(due, c)
		}
	}
	if len(due) > 0 {
		began := time.Now()
		rows, err := l.conn.Query(ctx, walkSQL, due, qs.positions(due), max(1000/len(due), walkSteps))
		if err != nil {
			return false, err
		}
		if err := qs.readWalk(rows, due, l.began, began); err != nil {
			return false, err
		}
		return true, l.enlist(ctx, func(q *queue) bool { return !q.idle.After(l.began) })
	}
	if l.rested {
		return false, nil
	}
	l.rested = true
	n := 0
	return true, l.enlist(ctx, func(*queue) bool { n++; return n <= mostRevisited })
}

// dispatch moves the picked jobs on and ends the transaction. Rows are locked in the order of ids.
func (l *look) dispatch(ctx context.Context) (ds []store.Dispatch, err error) {
	if len(l.picks) == 0 {
		_, err := l.conn.Exec(ctx, "COMMIT")
		return nil, err
	}
	type picked struct {
		id    turns.ID
		place int64
	}
	order := make([]picked, len(l.picks))
	for i, p := range l.picks {
		order[i] = picked{p.Job, int64(i)}
	}
	slices.SortFunc(order, func(a, b picked) int { return bytes.Compare(a.id[:], b.id[:]) })
	ids, places := make([]pgtype.UUID, len(order)), make([]int64, len(order))
	for i, p := range order {
		ids[i], places[i] = uuid(p.id), p.place
	}
	b := &pgx.Batch{}
	b.Queue(dispatchSQL, ids, ids[0], places).Query(func(rows pgx.Rows) (err error) {
		ds, err = collectDispatches(rows)
		return err
	})
	b.Queue("COMMIT")
	if err := l.conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	return ds, nil
}

// end stores the findings for later looks, and reports whether the next look may find jobs that this one left out.
func (l *look) end() (more bool) {
	qs, now := l.s.queues, time.Now()
	picked := make(map[turns.ID]bool, len(l.picks))
	for _, p := range l.picks {
		l.entries[p.Tenant.Index].of.since = l.began
		picked[p.Job] = true
	}
	for _, v := range l.visited {
		l.remember(v, picked)
		v.entry.of.yield(v.q)
		switch {
		case v.found || v.skips || !v.complete:
			v.q.idle, v.q.tries = time.Time{}, 0
		case v.rows == 0:
			qs.drop(v.entry.ID, v.q, v.hints)
		case v.q.hints == v.hints:
			qs.rest(v.q, now)
		}
	}
	if l.full {
		return l.s.rounds.note(l.classes, []roundEnd{{what: roundWaits}}, now)
	}
	for _, tier := range l.s.rounds.tiers() {
		if !l.hasVisited(tier) {
			l.ends = append(l.ends, roundEnd{tier: tier, what: roundRests})
		}
	}
	return l.s.rounds.note(l.classes, l.ends, now) || l.left
}

// hasVisited reports whether the look saw a tier, or that it is empty.
func (l *look) hasVisited(tier string) bool {
	return slices.ContainsFunc(l.visited, func(v *visit) bool { return v.tiers[tier] || v.complete && v.q.has(v.entry.ID, tier) })
}

func uuid(id turns.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
