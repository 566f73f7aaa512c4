package lifecycle

import (
	"time"

	"github.com/assay-run/assay/pkg/store/postgres/internal/turns"
)

// Beside a transaction that stays open, such as a dump, Postgres cannot clean up the index entries of jobs that were
// queued. A visit scans past all of them, and gets slower with each finished job. So the results of an expensive visit
// are reused for a while: its looks begin behind the jobs that they have taken.
const (
	// cheapVisit is how long a visit, or a count, may take which each look makes anew.
	cheapVisit = 2 * time.Millisecond
	// frontShare bounds the part of the time that expensive visits take: one in so many.
	frontShare = 20
	// longestFront is for how long a visit is used at most.
	longestFront = 10 * time.Second
)

// front is the batches of a queue in which an expensive visit found jobs.
type front struct {
	groups []frontGroup
	until  time.Time
	dear   bool // the last visit was expensive
}

// frontGroup is where the next look begins in a batch.
type frontGroup struct {
	batch    turns.ID
	priority int32
	after    turns.ID
	since    time.Time // of the first job
}

// doubt forgets a front that may lack jobs that were queued since.
func (f *front) doubt() { f.until = time.Time{} }

// recall has a visit begin at the front of its queue, and reports whether it has one.
func (l *look) recall(v *visit) bool {
	f := &v.q.front
	if !l.began.Before(f.until) || len(f.groups) == 0 {
		return false
	}
	for _, fg := range f.groups {
		g := l.groupOf(v.entry, groupKey{fg.batch, fg.priority})
		g.Age = max(g.Age, l.began.Sub(fg.since))
		v.entry.attach(g, &source{Source: turns.Source{More: true}, visit: v, batch: fg.batch, priority: fg.priority, after: fg.after})
	}
	v.found = true
	return true
}

// remember keeps the front of a queue after a look.
func (l *look) remember(v *visit, picked map[turns.ID]bool) {
	f := &v.q.front
	if v.cost > 0 { // it was read
		f.until, f.dear = time.Time{}, v.cost > l.s.queues.cheap
		if f.dear && v.complete && !v.skips { // else a batch that was not seen may have its turn
			f.until = l.began.Add(min(frontShare*v.cost, longestFront))
		}
	}
	if f.groups = nil; f.until.IsZero() {
		return
	}
	for g, srcs := range v.entry.sources {
		for _, src := range srcs {
			if src.visit != v {
				continue
			}
			if src.lanes || src.lane > 0 { // which change with each job that ends
				f.groups, f.until = nil, time.Time{}
				return
			}
			taken := 0
			for taken < len(src.Jobs) && picked[src.Jobs[taken].ID] {
				src.after = src.Jobs[taken].ID
				taken++
			}
			if taken < len(src.Jobs) || src.More {
				f.groups = append(f.groups, frontGroup{batch: src.batch, priority: src.priority, after: src.after, since: l.began.Add(-g.Age)})
			}
		}
	}
}

// before returns the id in front of another one.
func before(id turns.ID) turns.ID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]--
		if id[i] != 0xff {
			break
		}
	}
	return id
}

// countSlack is for how long after its time a dispatch may become visible.
const countSlack = 2 * time.Second

// counted is how held jobs are counted beside a transaction that stays open: from the oldest job of the last count,
// which skips most finished jobs.
type counted struct {
	since time.Time // no job that is held was dispatched before
	until time.Time // then all are counted again
}

// from returns from which dispatch on a look counts; zero: all.
func (c *counted) from(now time.Time) time.Time {
	if now.Before(c.until) {
		return c.since
	}
	return time.Time{}
}

// note stores the oldest job and the completeness of a count since some time, and its duration.
func (c *counted) note(oldest time.Time, complete bool, took, cheap time.Duration, now time.Time) {
	if complete {
		if c.until = (time.Time{}); took > cheap {
			c.until = now.Add(min(frontShare*took, longestFront))
		}
		c.since = oldest.Add(-countSlack)
		return
	}
	if oldest = oldest.Add(-countSlack); oldest.After(c.since) {
		c.since = oldest
	}
}
