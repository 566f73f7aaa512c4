package ui

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui/shown"
	"github.com/assay-run/assay/pkg/job"
)

const (
	// hourBins and hourBin divide the last hour.
	hourBins = 30
	hourBin  = time.Hour / hourBins
	// hourBatches and hourJobs are the most batches and jobs of a chart. Older batches can still have run in the hour, up
	// to hourBack before it.
	hourBatches = 1000
	hourJobs    = 1000
	hourBack    = 2 * time.Hour
	// hoursBytes, hourBytes, hourAge, hourThrift and hourOldest limit the cache of charts: reading takes at most a hundredth of the time.
	hoursBytes = 1 << 20
	hourBytes  = 1 << 10 // of one chart and its key
	hourAge    = 20 * time.Second
	hourThrift = 100
	hourOldest = 2 * time.Minute
)

// hourChart has the jobs that ended in the last hour, by time.
type hourChart struct {
	From, Until time.Time
	Bins        [hourBins]hourCount
	Cut         bool // the limits left out older batches or jobs
}

// hourCount counts ended jobs: successes, failures of programs, jobs that the fleet lost, and other jobs without a verdict on
// their program. Jobs of a batch count in parts.
type hourCount struct{ Good, Failed, Lost, Other float64 }

func (c hourCount) all() float64 { return c.Good + c.Failed + c.Lost + c.Other }

// total returns the sums of all bins.
func (h *hourChart) total() (sum hourCount) {
	for _, c := range h.Bins {
		sum.Good, sum.Failed, sum.Lost, sum.Other = sum.Good+c.Good, sum.Failed+c.Failed, sum.Lost+c.Lost, sum.Other+c.Other
	}
	return sum
}

// Most returns the highest number of jobs in a bin.
func (h *hourChart) Most() int64 {
	most := 0.0
	for _, c := range h.Bins {
		most = max(most, c.all())
	}
	return int64(math.Ceil(most - 1e-6))
}

// Sums returns the totals for the legend.
func (h *hourChart) Sums() []shown.Part {
	sum := h.total()
	return []shown.Part{{Class: "run", Label: "succeeded", N: rounded(sum.Good)}, {Class: "stop", Label: "failed", N: rounded(sum.Failed)},
		{Class: "infra", Label: "without a verdict", N: rounded(sum.Other)}, {Class: "bad", Label: "lost", N: h.lost()}}
}

// lost returns the number of jobs that the fleet lost.
func (h *hourChart) lost() int64 { return rounded(h.total().Lost) }

// rounded rounds up from 0.1, so that a part of a failure is not lost.
func rounded(n float64) int64 { return int64(math.Floor(n + 0.9)) }

// hourColumn is one part of a column, in a box of 1000 by 100.
type hourColumn struct {
	Class      string
	X, Y, W, H int
}

// Columns lays out the chart. Each part of a job is visible.
func (h *hourChart) Columns() (out []hourColumn) {
	most := float64(h.Most())
	if most == 0 {
		return nil
	}
	const w = 1000 / hourBins
	for i, c := range h.Bins {
		y := 100
		for _, p := range []struct {
			class string
			n     float64
		}{{"run", c.Good}, {"stop", c.Failed}, {"infra", c.Other}, {"bad", c.Lost}} {
			if p.n < 0.05 {
				continue
			}
			height := min(max(int(p.n*100/most), 2), y)
			y -= height
			out = append(out, hourColumn{Class: p.class, X: i * w, Y: y, W: w - 4, H: height})
		}
	}
	return out
}

// hourTip is the text of a column, over its whole height.
type hourTip struct {
	X, W int
	From time.Time
	hourCount
}

// Tips returns the texts of the columns with jobs.
func (h *hourChart) Tips() (out []hourTip) {
	const w = 1000 / hourBins
	for i, c := range h.Bins {
		if c.all() > 0 {
			out = append(out, hourTip{X: i * w, W: w, From: h.From.Add(time.Duration(i) * hourBin), hourCount: c})
		}
	}
	return out
}

// Text returns the text of a column.
func (t hourTip) Text() string {
	return t.From.UTC().Format("15:04") + " UTC, 2 min: " + shown.Count(rounded(t.all())) + " ended, " + shown.Count(rounded(t.Failed)) + " failed, " +
		shown.Count(rounded(t.Other)) + " without a verdict, " + shown.Count(rounded(t.Lost)) + " lost"
}

// at returns the bin of a time, or nil for earlier times. The last bin also has jobs that ended while the chart was read.
func (h *hourChart) at(t time.Time) *hourCount {
	if t.Before(h.From) {
		return nil
	}
	return &h.Bins[min(int(t.Sub(h.From)/hourBin), hourBins-1)]
}

// add counts n jobs that ended with an outcome.
func (c *hourCount) add(o job.Outcome, n float64) {
	switch {
	case o == job.OutcomeCanceled:
	case o == job.Succeeded:
		c.Good += n
	case o.OfProgram():
		c.Failed += n
	case o == job.Lost:
		c.Lost += n
	default:
		c.Other += n
	}
}

// spread counts the ended jobs of a batch, evenly over the time in which the batch ran.
func (h *hourChart) spread(b job.Batch) {
	end := h.Until
	if !b.EndedAt.IsZero() && b.EndedAt.Before(end) {
		end = b.EndedAt
	}
	took := end.Sub(b.CreatedAt)
	for i := range h.Bins {
		from := h.From.Add(time.Duration(i) * hourBin)
		share := 0.0
		if took > 0 {
			first, last := laterOf(from, b.CreatedAt), from.Add(hourBin)
			if end.Before(last) {
				last = end
			}
			share = max(last.Sub(first).Seconds(), 0) / took.Seconds()
		} else if h.at(end) == &h.Bins[i] {
			share = 1
		}
		for o, n := range b.Outcomes {
			h.Bins[i].add(o, float64(n)*share)
		}
	}
}

// laterOf returns the later of two times.
func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// hour returns the chart of the jobs that the visitor may see: all tenants' for operators. Visitors with equal rights
// share it. The chart is missing if it is not ready within the wait of a page.
func (v *visit) hour() (h *hourChart, there bool, err error) {
	tenant := ""
	if v.who.Role >= identity.Operator {
		tenant = "*"
	}
	ctx, cancel := v.patient()
	defer cancel()
	read := func(ctx context.Context) (*hourChart, error) { return readHour(ctx, v.api(), tenant, v.s.Now()) }
	h, err = v.s.keeps.hours.Get(ctx, polled{v.who.Tenant, v.who.Role, v.who.Held, tenant}, read)
	if errors.Is(err, api.ErrUnauthorized) { // the rejected key may belong to another visitor
		h, err = read(ctx)
	}
	if err != nil && ctx.Err() != nil && v.r.Context().Err() == nil {
		return nil, false, nil
	}
	return h, err == nil, err
}

// readHour reads the chart: jobs of batches from the batches' counters, other jobs from the list of jobs.
func readHour(ctx context.Context, c apiCaller, tenant string, now time.Time) (*hourChart, error) {
	h := &hourChart{Until: now, From: now.Add(-time.Hour)}
	seen := map[job.ID]bool{}
	for _, q := range []url.Values{{"since": {h.From.Add(-hourBack).UTC().Format(time.RFC3339)}}, {"open": {"true"}}} {
		q.Set("limit", strconv.Itoa(hourBatches))
		q.Set("fields", "ended_at")
		if tenant != "" {
			q.Set("tenant", tenant)
		}
		var list api.BatchList
		if err := c.JSON(ctx, apiCall{Method: http.MethodGet, Path: "/v1/batches", Query: q}, &list); err != nil {
			return nil, err
		}
		for _, b := range list.Batches {
			if !seen[b.ID] {
				h.spread(b)
			}
			seen[b.ID] = true
		}
		h.Cut = h.Cut || list.Next != ""
	}
	q := url.Values{"since": {h.From.UTC().Format(time.RFC3339)}, "limit": {strconv.Itoa(hourJobs)}, "fields": {"batch_id,outcome,ended_at"}}
	if tenant != "" {
		q.Set("tenant", tenant)
	}
	var list api.JobList
	if err := c.JSON(ctx, apiCall{Method: http.MethodGet, Path: "/v1/jobs", Query: q}, &list); err != nil {
		return nil, err
	}
	for _, j := range list.Jobs {
		if bin := h.at(j.EndedAt); bin != nil && j.BatchID == "" && j.Outcome != "" {
			bin.add(j.Outcome, 1)
		}
	}
	h.Cut = h.Cut || list.Next != ""
	return h, nil
}
