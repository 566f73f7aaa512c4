package lifecycle

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/store/postgres/internal/turns"
)

// want is jobs that a source is to have.
type want struct {
	*source
	jobs int
}

// last returns the last job that was read, or the place before the first.
func (s *source) last() turns.ID {
	if n := len(s.Jobs); n > 0 {
		return s.Jobs[n-1].ID
	}
	return s.after
}

// readJobs reads more jobs of some sources.
func (l *look) readJobs(ctx context.Context, wants []want) error {
	if len(wants) == 0 {
		return nil
	}
	n := len(wants)
	classes, tenants, priorities, lanes := make([]string, n), make([]int32, n), make([]int32, n), make([]int32, n)
	batches, after, most := make([]pgtype.UUID, n), make([]pgtype.UUID, n), make([]int64, n)
	for i, w := range wants {
		if w.lane > 0 {
			w.jobs = min(w.jobs, w.room-len(w.Jobs))
		}
		classes[i], tenants[i], priorities[i], lanes[i] = w.visit.q.class, w.visit.entry.ID, w.priority, w.lane
		batches[i], after[i], most[i] = uuid(w.batch), uuid(w.last()), int64(w.jobs)
	}
	rows, err := l.conn.Query(ctx, jobsSQL, classes, tenants, batches, priorities, lanes, after, most)
	if err != nil {
		return err
	}
	read := make([]int64, n)
	var nth int
	var id pgtype.UUID
	var caps *string
	if _, err := pgx.ForEachRow(rows, []any{&nth, &id, &caps}, func() error {
		read[nth-1]++
		w := wants[nth-1]
		w.Jobs = append(w.Jobs, turns.Job{ID: id.Bytes, Caps: l.capsOf(w.source, caps)})
		return nil
	}); err != nil {
		return err
	}
	for i, w := range wants {
		w.More = read[i] == most[i] && (w.lane == 0 || len(w.Jobs) < w.room)
	}
	return nil
}

// lanesOf is the capped jobs of a batch with one priority, whose lanes are to be read.
type lanesOf struct {
	*source
	group *turns.Group
	most  int64
}

// takeLanes returns the capped jobs of a tenant whose lanes were not read yet.
func (e *entry) takeLanes() (groups []lanesOf) {
	for _, g := range e.Groups {
		for _, src := range e.sources[g] {
			if src.lanes && src.More {
				src.More = false
				groups = append(groups, lanesOf{source: src, group: g})
			}
		}
	}
	for i := range groups {
		groups[i].most = int64(10 + (lanesAtOnce+e.Held)/len(groups))
	}
	return groups
}

// readLanes reads the lanes of capped jobs, and keeps those with room.
func (l *look) readLanes(ctx context.Context, groups []lanesOf) error {
	if len(groups) == 0 {
		return nil
	}
	if err := l.countCapped(ctx, groups); err != nil {
		return err
	}
	n := len(groups)
	classes, tenants, priorities, starts := make([]string, n), make([]int32, n), make([]int32, n), make([]int32, n)
	batches, most := make([]pgtype.UUID, n), make([]int64, n)
	for i, g := range groups {
		classes[i], tenants[i], priorities[i], starts[i] = g.visit.q.class, g.visit.entry.ID, g.priority, rand.Int32()
		batches[i], most[i] = uuid(g.batch), g.most
	}
	rows, err := l.conn.Query(ctx, lanesSQL, classes, tenants, batches, priorities, starts, most)
	if err != nil {
		return err
	}
	var nth int
	var lane int32
	var id pgtype.UUID
	var caps *string
	_, err = pgx.ForEachRow(rows, []any{&nth, &lane, &id, &caps}, func() error {
		g := groups[nth-1]
		src := &source{visit: g.visit, batch: g.batch, priority: g.priority, lane: lane, batchCaps: g.batchCaps}
		j := turns.Job{ID: id.Bytes, Caps: l.capsOf(src, caps)}
		src.room = l.rules.Places
		for _, c := range j.Caps {
			if room, bounded := l.rules.Room[c]; bounded {
				src.room = min(src.room, room)
			}
		}
		if src.room > 0 {
			src.Jobs, src.More = []turns.Job{j}, src.room > 1
			src.visit.found = true
			g.visit.entry.attach(g.group, src)
		}
		return nil
	})
	return err
}

// capsOf returns the caps of a job, as the column has them, and notes the room that they have.
func (l *look) capsOf(src *source, text *string) (keys []string) {
	if text == nil {
		return nil
	}
	e := src.visit.entry
	for line := range strings.SplitSeq(*text, "\n") {
		limits, key := e.of.labelCaps, capKey(e.ID, src.batch, line)
		if strings.HasPrefix(line, "b") {
			limits = src.batchCaps
		}
		_, rest, _ := strings.Cut(line, "\t")
		label, _, _ := strings.Cut(rest, "\t")
		if limit, capped := limits[label]; capped {
			if _, known := l.rules.Room[key]; !known {
				l.rules.Room[key] = limit - l.cappedHeld[key]
			}
		}
		keys = append(keys, key)
	}
	return keys
}

// capKey names the scope of a line of caps: jobs of a tenant, or of one batch.
func capKey(tenant int32, batch turns.ID, line string) string {
	key := string([]byte{byte(tenant >> 24), byte(tenant >> 16), byte(tenant >> 8), byte(tenant)})
	if strings.HasPrefix(line, "b") {
		key += string(batch[:])
	}
	return key + line
}

// countCapped counts the jobs that hold places of the tenants' caps.
func (l *look) countCapped(ctx context.Context, groups []lanesOf) error {
	tenants := []int32{}
	for _, g := range groups {
		if e := g.visit.entry; !e.capped {
			e.capped = true
			tenants = append(tenants, e.ID)
		}
	}
	if len(tenants) == 0 {
		return nil
	}
	rows, err := l.conn.Query(ctx, cappedSQL, tenants)
	if err != nil {
		return err
	}
	var tenant int32
	var batch pgtype.UUID
	var caps string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&tenant, &batch, &caps, &n}, func() error {
		for line := range strings.SplitSeq(caps, "\n") {
			l.cappedHeld[capKey(tenant, batch.Bytes, line)] += n
		}
		return nil
	})
	return err
}
