package ui

import (
	"net/url"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
)

// pageOfBatches and pageOfJobs are the numbers of batches and jobs per page.
const (
	pageOfBatches = "25"
	pageOfJobs    = "50"
)

// batchRow is a batch in a list.
type batchRow struct {
	job.Batch
	Parts         []display.Part
	Ended         int64 // jobs
	Rate          float64
	ETA           time.Duration // 0: none or unknown
	Infra, Judged int64
	Took          time.Duration
}

// Succeeded returns the number of successful jobs.
func (r batchRow) Succeeded() int64 { return r.Outcomes[job.Succeeded] }

// rowOf sums up a batch. Its rate is the mean since the submission.
func rowOf(b job.Batch, now time.Time) batchRow {
	r := batchRow{Batch: b, Parts: display.Verdicts(&b), Ended: b.Counts[job.Finished] + b.Counts[job.Canceled]}
	r.Infra, r.Judged = display.Infra(&b)
	until := now
	if !b.EndedAt.IsZero() {
		until = b.EndedAt
	}
	r.Took = max(until.Sub(b.CreatedAt), 0)
	if s := r.Took.Seconds(); s > 0 {
		r.Rate = float64(r.Ended) / s
	}
	if left := b.Total - r.Ended; left > 0 && r.Rate > 0 {
		r.ETA = time.Duration(min(float64(left)/r.Rate, 1e8) * float64(time.Second))
	}
	return r
}

type batchesPage struct {
	Rows   []batchRow
	Next   string
	More   bool // this is not the first page
	Owners owners
}

func (s *Server) batches(v *visit) error {
	q := url.Values{"limit": {pageOfBatches}}
	before := v.r.URL.Query().Get("before")
	if before != "" {
		q.Set("before", before)
	}
	p := batchesPage{More: before != "", Owners: v.ownersOf(q)}
	var list api.BatchList
	if err := v.get("/v1/batches", q, &list); err != nil {
		return err
	}
	live := before == ""
	for _, b := range list.Batches {
		p.Rows = append(p.Rows, rowOf(b, s.Now()))
		live = live || !b.Done()
	}
	if list.Next != "" {
		next := url.Values{"before": {string(list.Next)}}
		p.Owners.keep(next)
		p.Next = "/ui/batches?" + next.Encode()
	}
	return v.show("batches", "Batches", live, p)
}
