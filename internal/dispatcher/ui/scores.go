package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
)

const (
	// scorePages is how many pages of scorePage results the statistics of a batch are from.
	scorePages = 5
	scorePage  = 1000
	// scoreBins is the number of columns of the distribution of scores.
	scoreBins = 10
	// scoreLabels is the most labels with a pass@k.
	scoreLabels = 8
	// scoresBytes, scoreBytes, scoreAge, scoreThrift and scoreOldest limit the cache of statistics of unfinished batches:
	// reading takes at most a fiftieth of the time.
	scoresBytes = 4 << 20
	scoreBytes  = 4 << 10 // of one batch
	scoreAge    = 5 * time.Second
	scoreThrift = 50
	scoreOldest = 2 * time.Minute
)

// passAt are the values of k of pass@k.
var passAt = []int{1, 2, 4, 8, 16, 32, 64}

// batchScores are statistics of the first results of a batch.
type batchScores struct {
	Read   int64 // results
	Scored int64 // results with a score
	Mean   float64
	Bins   *chart // distribution of the scores; nil without tests
	Run    spread // of the jobs that ran
	Wait   spread
	PassAt []int // columns of Labels
	Labels []passRow
}

// spread has percentiles of a time in milliseconds.
type spread struct{ P50, P95 float64 }

// passRow has the pass@k of the values of a label.
type passRow struct {
	Label       string
	Values      int
	Least, Most int      // results of a value
	Rates       []string // in the order of passAt; a dash if no value has enough results
}

// scored is the part of a result that the statistics need.
type scored struct {
	Labels  map[string]string `json:"labels"`
	Outcome job.Outcome       `json:"outcome"`
	Timings job.Timings       `json:"timings"`
	Tests   *struct {
		Score *float64 `json:"score"`
	} `json:"tests"`
}

// score returns the score as the Python client does, or false without a verdict on the program. A solution that reached no
// test has 0.
func (r scored) score() (float64, bool) {
	switch {
	case !r.Outcome.OfProgram(), r.Tests != nil && r.Tests.Score == nil:
		return 0, false
	case r.Tests != nil:
		return *r.Tests.Score, true
	}
	return 0, true
}

// passes counts the results of a label's value.
type passes struct{ n, succeeded int }

// rate returns the probability that one of k results succeeded: the unbiased estimate.
func (p passes) rate(k int) float64 {
	miss := 1.0
	for i := p.n - p.succeeded + 1; i <= p.n; i++ {
		miss *= max(1-float64(k)/float64(i), 0)
	}
	return 1 - miss
}

// scoring gathers results.
type scoring struct {
	batchScores
	graded      bool // a result has tests
	sum         float64
	bins        [scoreBins]int64
	runs, waits []float64
	labels      map[string]map[string]passes
}

func (s *scoring) add(r scored) {
	s.Read++
	if r.Outcome == job.OutcomeCanceled {
		return
	}
	s.waits = append(s.waits, r.Timings.QueuedMS+r.Timings.SlotMS)
	if r.Timings.RunMS > 0 {
		s.runs = append(s.runs, r.Timings.RunMS)
	}
	score, ok := r.score()
	if !ok {
		return
	}
	s.graded = s.graded || r.Tests != nil
	s.Scored++
	s.sum += score
	s.bins[min(max(int(score*scoreBins), 0), scoreBins-1)]++
	for key, value := range r.Labels {
		values := s.labels[key]
		if values == nil {
			values = map[string]passes{}
			s.labels[key] = values
		}
		p := values[value]
		if p.n++; r.Outcome == job.Succeeded {
			p.succeeded++
		}
		values[value] = p
	}
}

// stats returns the statistics of the gathered results.
func (s *scoring) stats() *batchScores {
	out := s.batchScores
	out.Run, out.Wait = spreadOf(s.runs), spreadOf(s.waits)
	if !s.graded {
		out.Scored = 0
	} else {
		out.Mean = s.sum / float64(s.Scored)
		edges := make([]string, scoreBins+1)
		for i := range edges {
			edges[i] = strconv.FormatFloat(float64(i)/scoreBins, 'f', 1, 64)
		}
		out.Bins = binned("chart-scores", "score, 0 to 1", s.bins[:], edges)
	}
	largest := 0
	for _, key := range slices.Sorted(maps.Keys(s.labels)) {
		row := passRowOf(key, s.labels[key])
		if row.Most < 2 || len(out.Labels) == scoreLabels {
			continue
		}
		largest = max(largest, row.Most)
		out.Labels = append(out.Labels, row)
	}
	for _, k := range passAt {
		if k <= largest {
			out.PassAt = append(out.PassAt, k)
		}
	}
	for i := range out.Labels {
		out.Labels[i].Rates = out.Labels[i].Rates[:len(out.PassAt)]
	}
	return &out
}

// passRowOf returns the mean pass@k over the values of a label that have k results.
func passRowOf(key string, values map[string]passes) passRow {
	row := passRow{Label: display.Line(key, 60), Values: len(values)}
	for _, p := range values {
		if row.Least == 0 || p.n < row.Least {
			row.Least = p.n
		}
		row.Most = max(row.Most, p.n)
	}
	for _, k := range passAt {
		sum, n := 0.0, 0
		for _, p := range values {
			if p.n >= k {
				sum, n = sum+p.rate(k), n+1
			}
		}
		rate := "–"
		if n > 0 {
			rate = strconv.FormatFloat(sum/float64(n), 'f', 3, 64)
		}
		row.Rates = append(row.Rates, rate)
	}
	return row
}

func spreadOf(ms []float64) spread {
	if len(ms) == 0 {
		return spread{}
	}
	slices.Sort(ms)
	at := func(percent int) float64 { return ms[(len(ms)-1)*percent/100] }
	return spread{at(50), at(95)}
}

// scoresOf returns the statistics of a batch that the visitor may read. They are missing if they are not ready within the
// wait of a page, and nil for an unfinished batch with a lease: reading its results would prolong the lease.
func (v *visit) scoresOf(b job.Batch) (s *batchScores, there bool, err error) {
	if b.Counts[job.Finished] == 0 || !b.Done() && b.Lease > 0 {
		return nil, true, nil
	}
	ctx, cancel := v.patient()
	defer cancel()
	keep := &v.s.keeps.scores
	if b.Done() {
		keep = &v.s.keeps.scored
	}
	read := func(ctx context.Context) (*batchScores, error) { return readScores(ctx, v.api(), b.ID) }
	s, err = keep.Get(ctx, b.ID, read)
	if errors.Is(err, api.ErrUnauthorized) { // the rejected key may belong to another visitor
		s, err = read(ctx)
	}
	if err != nil && ctx.Err() != nil && v.r.Context().Err() == nil {
		return nil, false, nil
	}
	return s, err == nil, err
}

// readScores reads the first results of a batch.
func readScores(ctx context.Context, c apiCaller, id job.ID) (*batchScores, error) {
	s := scoring{labels: map[string]map[string]passes{}}
	q := url.Values{"limit": {strconv.Itoa(scorePage)}, "fields": {"labels,outcome,timings,tests"}}
	for range scorePages {
		got, err := c.Do(ctx, apiCall{Method: http.MethodGet, Path: "/v1/batches/" + string(id) + "/results", Query: q})
		if err != nil {
			return nil, err
		}
		n := s.Read
		for line := range bytes.Lines(got.Body.Bytes()) {
			var r scored
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, fmt.Errorf("read results of batch %s: %w", id, err)
			}
			s.add(r)
		}
		if s.Read == n || got.header.Get(api.HeaderComplete) == "true" {
			break
		}
		q.Set("after", got.header.Get(api.HeaderCursor))
	}
	return s.stats(), nil
}
