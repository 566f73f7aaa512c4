package postgres

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/schema"
)

// uploaded makes a batch of chunks, each with a job at each of its times, and returns its jobs.
func uploaded(t *testing.T, s *Store, chunks ...[]time.Time) (batch job.ID, ids []job.ID) {
	t.Helper()
	ctx := t.Context()
	batch, _, err := s.OpenUpload(ctx, store.NewBatch{ID: job.FirstIDAt(time.Now()), Tenant: "t"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n, times := range chunks {
		var jobs []store.NewJob
		for _, at := range times {
			ids = append(ids, job.FirstIDAt(at))
			jobs = append(jobs, store.NewJob{ID: job.FirstIDAt(at), Tenant: "t", Pool: "p", Spec: []byte(`{}`)})
		}
		if _, err := s.AppendChunk(ctx, "t", batch, store.Chunk{N: int64(n), Digest: sha256.Sum256([]byte{byte(n)})}, jobs); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SealUpload(ctx, "t", batch, int64(len(ids))); err != nil {
		t.Fatal(err)
	}
	return batch, ids
}

// listed returns the number of jobs of a batch in the list and in the map.
func listed(t *testing.T, s *Store, batch job.ID) (inList, inMap int) {
	t.Helper()
	for before := job.ID(""); ; {
		page, err := s.BrowseJobs(t.Context(), "t", store.JobQuery{JobFilter: store.JobFilter{Batch: batch}, Before: before, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		inList += len(page.Jobs)
		if before = page.Next; before == "" {
			break
		}
	}
	for after := job.ID(""); ; {
		m, err := s.BatchMap(t.Context(), "t", batch, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		inMap += len(m.Cells)
		if after = m.Next; after == "" {
			return inList, inMap
		}
	}
}

// TestChunksOfOtherClocks checks that the jobs of a batch are found regardless of the clock of the dispatcher that
// received a chunk.
func TestChunksOfOtherClocks(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	now := time.Now()
	some := func(at time.Time) (times []time.Time) {
		for i := range 10 {
			times = append(times, at.Add(time.Duration(i)*time.Millisecond))
		}
		return times
	}
	for name, at := range map[string]time.Time{
		"5 minutes ahead": now.Add(5 * time.Minute), "5 minutes behind": now.Add(-5 * time.Minute),
		"of the next day": now.UTC().Truncate(24 * time.Hour).Add(24*time.Hour - 5*time.Millisecond),
	} {
		batch, ids := uploaded(t, s, some(now), some(at))
		if inList, inMap := listed(t, s, batch); inList != len(ids) || inMap != len(ids) {
			t.Errorf("a clock that is %s: %d of %d jobs are listed, %d are in the map", name, inList, len(ids), inMap)
		}
		now = now.Add(time.Second) // they have other ids
	}
}

// TestSpansOfEarlierReleases checks that the upkeep records the spans that an earlier release did not, once
// the batch is over.
func TestSpansOfEarlierReleases(t *testing.T) {
	t.Parallel()
	s := openTest(t, Config{})
	ctx := t.Context()
	now := time.Now()
	batch, ids := uploaded(t, s, []time.Time{now}, []time.Time{now.Add(-3 * time.Hour), now.Add(-2 * time.Hour)})
	if _, err := s.db.Pool.Exec(ctx, `UPDATE batches SET first_job = NULL, last_job = NULL, spanned = 0`); err != nil {
		t.Fatal(err)
	}
	upkeep := func(want string) {
		t.Helper()
		if err := s.Maintain(ctx); err != nil {
			t.Fatal(err)
		}
		if got := queryStrings(t, s, `SELECT coalesce(first_job || ' ' || last_job || ' ' || spanned, 'none') FROM batches`); got[0] != want {
			t.Errorf("span %s, want %s", got[0], want)
		}
	}
	upkeep("none")
	if _, err := s.CancelBatch(ctx, batch); err != nil {
		t.Fatal(err)
	}
	upkeep(string(ids[1]) + " " + string(ids[0]) + " 3")
	s.Tables = schema.New(s.db)
	upkeep(string(ids[1]) + " " + string(ids[0]) + " 3")
	if inList, inMap := listed(t, s, batch); inList != 3 || inMap != 3 {
		t.Errorf("%d jobs are listed, %d are in the map", inList, inMap)
	}
}
