package read

import (
	"cmp"
	"context"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/format"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

const (
	// summarySample is how many records a summary is from.
	summarySample = 2000
	// summaryRate is how many of the last records the rate is from.
	summaryRate = 1000
	// maxClusters is how many clusters a summary has; maxExplained is how much of a message distinguishes them.
	maxClusters  = 50
	maxExplained = 300
)

// sample are some of the records of a batch, $2 of the numbers up to $3, evenly spread over them, but not at even
// distances: a pattern at even distances would otherwise fill the sample or be missed. Deleted records leave gaps.
func sample(days pg.Days) string {
	return `
SELECT r.id, r.outcome, r.failure, r.reason, coalesce(extract(epoch FROM j.ended_at - j.started_at) * 1000, -1)::float8, r.said
FROM generate_series(0, $2::bigint - 1) AS i (n), LATERAL (
		SELECT r.id, r.outcome, ` + format.Failure + ` AS failure, r.reason, CASE WHEN r.outcome = 'succeeded' THEN '' ELSE ` + format.ReasonSQL + ` END AS said FROM results r
		WHERE r.batch_id = $1 AND r.seq = 1 + i.n * $3::bigint / $2::bigint + abs(hashint8(i.n)::bigint) % greatest($3::bigint / $2::bigint, 1)
			AND r.seq > 0 AND ` + days.In("r.id") + ` LIMIT 1) r, LATERAL (
		SELECT j.started_at, j.ended_at FROM jobs j WHERE j.id = r.id AND ` + days.In("j.id") + ` LIMIT 1) j`
}

// lately is how many of the last $2 records of a batch are of the last minute, the last number, and how old they are, in seconds.
func lately(days pg.Days) string {
	return `
SELECT count(*) FILTER (WHERE recorded_at > now() - interval '1 minute'), coalesce(max(seq), 0),
	coalesce(extract(epoch FROM now() - min(recorded_at)), 0)::float8
FROM (SELECT recorded_at, seq FROM results r WHERE r.batch_id = $1 AND r.seq > 0 AND ` + days.In("r.id") + ` ORDER BY r.seq DESC LIMIT $2) r`
}

// BatchSummary implements store.Browser.
func (s *Reader) BatchSummary(ctx context.Context, tenant string, batch job.ID) (*store.BatchSummary, error) {
	b, err := s.Batch(ctx, tenant, batch)
	if err != nil {
		return nil, err
	}
	sum := &store.BatchSummary{Batch: *b, SampledOf: b.Counts[job.Finished] + b.Counts[job.Canceled]}
	err = s.db.Do(ctx, "summary of a batch", func(ctx context.Context) error {
		days, err := s.DaysOf(ctx, batch)
		if err != nil {
			return err
		}
		last, err := s.rate(ctx, days, sum)
		if err != nil || last == 0 {
			return err
		}
		return s.sample(ctx, days, sum, last)
	})
	if err != nil {
		return nil, err
	}
	return sum, nil
}

// rate fills in how fast the batch is, and returns the last number of its records.
func (s *Reader) rate(ctx context.Context, days pg.Days, sum *store.BatchSummary) (last int64, err error) {
	sum.Reasons, sum.Failures, sum.Durations, sum.Clusters = map[job.Reason]int64{}, map[job.Outcome]int64{}, []store.DurationBucket{}, []store.FailureCluster{}
	var n int64
	var seconds float64
	err = s.db.Pool.QueryRow(ctx, lately(days), pg.UUID(sum.Batch.ID), summaryRate).Scan(&n, &last, &seconds)
	if err != nil || sum.Batch.Done() {
		return last, err
	}
	if n < summaryRate { // those before are older than a minute, or there are none
		seconds = min(max(time.Since(sum.Batch.CreatedAt).Seconds(), 1), time.Minute.Seconds())
	}
	sum.Rate = float64(n) / max(seconds, 0.001)
	if left := sum.Batch.Total - sum.SampledOf; sum.Rate > 0 {
		sum.ETA = job.Duration(min(float64(left)/sum.Rate, (30*24*time.Hour).Seconds())*1000) * job.Duration(time.Millisecond)
	}
	return last, nil
}

func (s *Reader) sample(ctx context.Context, days pg.Days, sum *store.BatchSummary, last int64) error {
	rows, err := s.db.Pool.Query(ctx, sample(days), pg.UUID(sum.Batch.ID), min(last, summarySample), last)
	if err != nil {
		return err
	}
	buckets, clusters := map[int]int64{}, map[clusterKey]*store.FailureCluster{}
	var id pgtype.UUID
	var outcome, failure job.Outcome
	var reason job.Reason
	var ms float64
	var said string
	_, err = pgx.ForEachRow(rows, []any{&id, &outcome, &failure, &reason, &ms, &said}, func() error {
		sum.Sampled++
		if reason != job.ReasonNone {
			sum.Reasons[reason]++
		}
		if ms >= 0 {
			buckets[bucketOf(ms)]++
		}
		if outcome != job.Succeeded {
			sum.Failures[failure]++
			cluster(clusters, clusterKey{outcome: outcome, failure: failure}, said, pg.JobID(id))
		}
		return nil
	})
	for _, b := range slices.Sorted(maps.Keys(buckets)) {
		sum.Durations = append(sum.Durations, store.DurationBucket{UpToMS: math.Exp2(float64(b)), Jobs: buckets[b]})
	}
	for _, c := range clusters {
		sum.Clusters = append(sum.Clusters, *c)
	}
	slices.SortFunc(sum.Clusters, func(a, b store.FailureCluster) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Example, b.Example))
	})
	sum.Clusters = sum.Clusters[:min(len(sum.Clusters), maxClusters)]
	return err
}

// bucketOf is the power of two, at least one millisecond, up to which a duration is.
func bucketOf(ms float64) int { return max(int(math.Ceil(math.Log2(max(ms, 1)))), 0) }

type clusterKey struct {
	outcome, failure   job.Outcome
	exception, message string
}

// differs matches the parts of a message that vary: numbers, addresses, ids, and quoted text.
var differs = regexp.MustCompile(`'[^']*'|"[^"]*"|0x[0-9a-fA-F]+|[0-9a-f]{8}-[0-9a-f-]{27}|-?\d+(\.\d+)?`)

// enumerated matches a list of such items, whose length varies as well.
var enumerated = regexp.MustCompile(`…(, …)+`)

// cluster adds a failure with the outcome and failure class of k to the group of its exception and message.
func cluster(all map[clusterKey]*store.FailureCluster, k clusterKey, said string, id job.ID) {
	exception, message := format.Decode(said)
	message, _, _ = strings.Cut(message, "\n")
	message = enumerated.ReplaceAllString(differs.ReplaceAllString(clip(message, maxExplained), "…"), "…")
	k.exception, k.message = exception, message
	c := all[k]
	if c == nil {
		c = &store.FailureCluster{Outcome: k.outcome, Failure: k.failure, Exception: exception, Message: message, Example: id}
		all[k] = c
	}
	c.Jobs++
}
