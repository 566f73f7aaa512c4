package ui

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// batchPage is a batch with a page of its jobs.
type batchPage struct {
	batchRow
	Reasons   []reasonRow
	Durations *chart // nil: none is known
	Clusters  []clusterRow
	Sampled   int64 // results sampled of SampledOf, if not all
	SampledOf int64
	Scores    *batchScores // nil: not read yet, or not to be read
	Later     later        // failures and durations
	Jobs      jobsPage
	MapURL    string
	Mapped    int64 // jobs on the map
	Callback  *job.Delivery
}

// later describes a part that is missing from a page and loads later.
type later struct {
	Comes bool   // a part is missing
	Whole string // address of the page that waits for it
}

type reasonRow struct {
	Reason job.Reason
	Jobs   int64
}

type clusterRow struct {
	store.FailureCluster
	URL string // of jobs with the same failure
}

func (s *Server) batch(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	at := "/v1/batches/" + string(id)
	var sum store.BatchSummary
	there, err := v.soon(at+"/summary", nil, &sum)
	if err == nil && !there {
		err = v.get(at, nil, &sum.Batch)
	}
	if err != nil {
		return err
	}
	p := batchPage{Later: later{!there, v.whole()}, batchRow: rowOf(sum.Batch, s.Now()), Durations: durationsOf(sum.Durations), Sampled: sum.Sampled, SampledOf: sum.SampledOf, Callback: sum.Batch.Callback}
	if sum.Rate > 0 && !sum.Batch.Done() { // the recent rate predicts better
		p.Rate, p.ETA = sum.Rate, sum.ETA.D()
	}
	scores, known, err := v.scoresOf(sum.Batch)
	if err != nil {
		return err
	}
	p.Scores, p.Later.Comes = scores, p.Later.Comes || !known
	p.Reasons, p.Clusters = reasonsOf(sum.Reasons), clustersOf(v.r.URL.Path, sum.Clusters)
	p.Mapped = min(sum.Batch.Total, mapMost)
	p.MapURL = "/ui/batches/" + string(id) + "/map"
	if p.Jobs, err = v.jobsOf(at+"/jobs", v.r.URL.Path); err != nil {
		return err
	}
	title := "Batch " + shortID(id)
	if sum.Batch.Name != "" {
		title = display.Line(sum.Batch.Name, 80)
	}
	return v.show("batch", title, !sum.Batch.Done(), p)
}

func reasonsOf(m map[job.Reason]int64) (out []reasonRow) {
	for r, n := range m {
		if r != job.ReasonNone && n > 0 {
			out = append(out, reasonRow{r, n})
		}
	}
	slices.SortFunc(out, func(a, b reasonRow) int { return int(b.Jobs - a.Jobs) })
	return out
}

func clustersOf(path string, all []store.FailureCluster) (out []clusterRow) {
	for i, c := range all {
		if i == 20 {
			break
		}
		out = append(out, clusterRow{c, path + "?" + url.Values{"failure": {string(c.Failure)}}.Encode() + "#jobs"})
	}
	return out
}

// durationsOf returns the histogram of durations. Buckets are powers of two; empty ones between others are shown.
func durationsOf(all []store.DurationBucket) *chart {
	by, first, last := map[float64]int64{}, 0.0, 0.0
	for _, b := range all {
		if by[b.UpToMS] = b.Jobs; b.Jobs > 0 {
			last = b.UpToMS
			first = min(cmp.Or(first, last), last)
		}
	}
	var counts []int64
	edges := []string{display.Millis(first / 2)}
	if first <= 1 { // the lowest bucket begins at 0
		edges[0] = display.Millis(0)
	}
	for ms := first; ms > 0 && ms <= last && len(counts) < 64; ms *= 2 {
		counts, edges = append(counts, by[ms]), append(edges, display.Millis(ms))
	}
	return binned("chart-durations", "duration", counts, edges)
}

// mapMost is the most jobs on a map.
const mapMost = 100_000

// mapData is a map for the script, with one character per job.
type mapData struct {
	Kinds []mapKind `json:"kinds"` // for the characters: "0" is the first, and so on in code point order
	Cells string    `json:"cells"`
}

type mapKind struct {
	Name  string `json:"name"`
	Class string `json:"class"`
}

// mapPart is a part of a map as the API returns it.
type mapPart struct {
	IDs  []job.ID `json:"ids"`
	Ends []string `json:"ends"` // outcome, or state of an unfinished job
	Next job.ID   `json:"next"`
}

// batchMap serves the map of a batch.
func (s *Server) batchMap(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	m, err := v.mapOf(id)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	_, _ = v.w.Write(m.data) // the client may be gone
	return nil
}

// classOf returns the colour class of an outcome or, for an unfinished job, of its state.
func classOf(end string) string {
	switch job.State(end) {
	case job.Running:
		return "run"
	case job.Queued, job.Dispatched:
		return "wait"
	}
	return display.Kind(job.Outcome(end))
}

// errNoCell reports a position without a job.
var errNoCell = fmt.Errorf("%w: the map has no such place", job.ErrNotFound)

// batchCell redirects to the job at a position of the map.
func (s *Server) batchCell(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(v.r.PathValue("n"))
	if err != nil || n < 0 || n >= mapMost {
		return errNoCell
	}
	m, err := v.mapOf(id)
	if err != nil {
		return err
	}
	if n >= m.jobs {
		return fmt.Errorf("%w: the batch has %d jobs", job.ErrNotFound, m.jobs)
	}
	found, err := v.jobAt(id, m, n)
	if err != nil {
		return err
	}
	return v.to("/ui/jobs/" + string(found))
}

// comparePage has the differences between two batches.
type comparePage struct {
	store.Comparison
	Later        later // everything but the names
	NameA, NameB string
	Next         string
	Choose       string // instruction, if there is nothing to compare yet
}

const flipsShown = 100

func (s *Server) compare(v *visit) error {
	given := v.r.URL.Query()
	ids := slices.DeleteFunc(slices.Clone(given["b"]), func(s string) bool { return s == "" })
	if len(ids) != 2 {
		return v.show("compare", "Compare batches", false, comparePage{Choose: "Choose exactly two batches to compare."})
	}
	var names [2]job.Batch
	for i, text := range ids {
		id, err := job.ParseID(text)
		if err != nil {
			return fmt.Errorf("%w: %.40q is not an id", job.ErrNotFound, text)
		}
		if err := v.get("/v1/batches/"+string(id), nil, &names[i]); err != nil {
			return err
		}
	}
	if names[1].CreatedAt.Before(names[0].CreatedAt) { // compare the later batch with the earlier one
		names[0], names[1] = names[1], names[0]
	}
	p := comparePage{NameA: nameOf(names[0]), NameB: nameOf(names[1])}
	q := url.Values{"limit": {strconv.Itoa(flipsShown)}}
	if from := given.Get("from"); from != "" {
		q.Set("from", from)
	}
	there, err := v.soon("/v1/batches/"+string(names[0].ID)+"/compare/"+string(names[1].ID), q, &p.Comparison)
	if err != nil {
		return err
	}
	p.A, p.B, p.Later = names[0].ID, names[1].ID, later{!there, v.whole()}
	if p.FlipsNext > 0 {
		p.Next = "/ui/compare?" + url.Values{"b": ids, "from": {strconv.Itoa(p.FlipsNext)}}.Encode()
	}
	return v.show("compare", "Compare batches", false, p)
}

func nameOf(b job.Batch) string {
	if b.Name != "" {
		return display.Line(b.Name, maxLine)
	}
	return "batch " + shortID(b.ID) + " of " + b.CreatedAt.UTC().Format(time.DateTime)
}
