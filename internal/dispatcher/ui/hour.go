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
	hourBytes  = 2 << 10 // of one chart and its key
	hourAge    = 20 * time.Second
	hourThrift = 100
	hourOldest = 2 * time.Minute
)

// hourChart has the jobs that ran and ended in the last hour, by time.
type hourChart struct {
	From, Until time.Time
	Bins        [hourBins]hourCount
	Cut         bool              // the limits left out older batches or jobs
	Running     [hourBins]float64 // mean number of running jobs; zero if Crowded
	Crowded     bool              // too many jobs were submitted in the hour to list them all
}

// hourCount counts ended jobs: successes, failures of programs, jobs that the fleet lost, and other jobs without a verdict on
// their program. Jobs of a batch count in parts.
type hourCount struct{ Good, Failed, Lost, Other float64 }

// total returns the sums of all bins.
func (h *hourChart) total() (sum hourCount) {
	for _, c := range h.Bins {
		sum.Good, sum.Failed, sum.Lost, sum.Other = sum.Good+c.Good, sum.Failed+c.Failed, sum.Lost+c.Lost, sum.Other+c.Other
	}
	return sum
}

// lost returns the number of jobs that the fleet lost.
func (h *hourChart) lost() int64 { return rounded(h.total().Lost) }

// rounded rounds up from 0.1, so that a part of a failure is not lost.
func rounded(n float64) int64 { return int64(math.Floor(n + 0.9)) }

// ran adds a job that ran from started to ended, or still runs if ended is zero.
func (h *hourChart) ran(started, ended time.Time) {
	if started.IsZero() {
		return
	}
	if ended.IsZero() {
		ended = h.Until
	}
	for i := range h.Running {
		from := h.From.Add(time.Duration(i) * hourBin)
		h.Running[i] += overlap(from, from.Add(hourBin), started, ended).Seconds() / hourBin.Seconds()
	}
}

// overlap returns how long both intervals last together.
func overlap(from, until, start, end time.Time) time.Duration {
	if start.Before(from) {
		start = from
	}
	if until.Before(end) {
		end = until
	}
	return max(end.Sub(start), 0)
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
			share = overlap(from, from.Add(hourBin), b.CreatedAt, end).Seconds() / took.Seconds()
		} else if h.at(end) == &h.Bins[i] {
			share = 1
		}
		for o, n := range b.Outcomes {
			h.Bins[i].add(o, float64(n)*share)
		}
	}
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

// readHour reads the chart. Ended jobs of batches are from the batches' counters, all others from the list of jobs.
func readHour(ctx context.Context, c apiCaller, tenant string, now time.Time) (*hourChart, error) {
	h := &hourChart{Until: now, From: now.Add(-time.Hour)}
	seen := map[job.ID]bool{}
	for _, q := range []url.Values{{"since": {h.From.Add(-hourBack).UTC().Format(time.RFC3339)}}, {"open": {"true"}}} {
		var list api.BatchList
		q.Set("fields", "ended_at")
		if err := c.hourPart(ctx, "/v1/batches", tenant, hourBatches, q, &list); err != nil {
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
	for i, q := range []url.Values{{"since": {h.From.UTC().Format(time.RFC3339)}}, {"state": {string(job.Running)}}} {
		var list api.JobList
		q.Set("fields", "batch_id,outcome,started_at,ended_at")
		if err := c.hourPart(ctx, "/v1/jobs", tenant, hourJobs, q, &list); err != nil {
			return nil, err
		}
		for _, j := range list.Jobs {
			if bin := h.at(j.EndedAt); i == 0 && bin != nil && j.BatchID == "" && j.Outcome != "" {
				bin.add(j.Outcome, 1)
			}
			if !seen[j.ID] {
				h.ran(j.StartedAt, j.EndedAt)
			}
			seen[j.ID] = true
		}
		h.Cut, h.Crowded = h.Cut || i == 0 && list.Next != "", h.Crowded || list.Next != ""
	}
	if h.Crowded {
		h.Running = [hourBins]float64{}
	}
	return h, nil
}

// hourPart reads one list of a chart, of a tenant or, if that is empty, of the visitor's.
func (c apiCaller) hourPart(ctx context.Context, path, tenant string, most int, q url.Values, out any) error {
	q.Set("limit", strconv.Itoa(most))
	if tenant != "" {
		q.Set("tenant", tenant)
	}
	return c.JSON(ctx, apiCall{Method: http.MethodGet, Path: path, Query: q}, out)
}
