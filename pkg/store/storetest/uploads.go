package storetest

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func testUploads(t *testing.T, open Open) {
	f := newFixture(t, open, Options{OpenBatchTTL: time.Hour})
	ctx := t.Context()
	chunk := func(n int64) store.Chunk { return store.Chunk{N: n, Digest: [32]byte{byte(n + 1)}} }
	begin := func(f *fixture, key store.Idempotency) job.ID {
		b := newBatch()
		b.Idempotency = key
		id, existed, err := f.OpenUpload(ctx, b, json.RawMessage(`{"pool": "p"}`))
		f.must(err)
		if existed || id != b.ID {
			f.Fatalf("opened %s, existed %v", id, existed)
		}
		return id
	}
	add := func(f *fixture, id job.ID, n int64, jobs int) {
		fresh, err := f.AppendChunk(ctx, tenant, id, chunk(n), newJobs(jobs))
		f.must(err)
		if !fresh {
			f.Errorf("chunk %d is not new", n)
		}
	}
	t.Run("chunks become a batch", func(t *testing.T) { testUploadWhole(f.with(t), begin(f, store.Idempotency{}), add) })
	t.Run("a chunk counts once, with the same bytes", func(t *testing.T) { testChunkTwice(f.with(t), begin(f, store.Idempotency{}), chunk) })
	t.Run("chunks come in order", func(t *testing.T) {
		f, id := f.with(t), begin(f, store.Idempotency{})
		_, err := f.AppendChunk(ctx, tenant, id, chunk(1), newJobs(1))
		f.mustBe(err, job.ErrConflict)
		add(f, id, 0, 1)
		f.mustBe(f.SealUpload(ctx, tenant, id, 2), job.ErrConflict)
		f.must(f.SealUpload(ctx, tenant, id, 1))
		_, err = f.AppendChunk(ctx, tenant, id, chunk(1), newJobs(1))
		f.mustBe(err, job.ErrConflict)
		fresh, err := f.AppendChunk(ctx, tenant, id, chunk(0), newJobs(1))
		f.must(err)
		if fresh || f.batch(id).Total != 1 {
			t.Error("a chunk was taken after the seal")
		}
	})
	t.Run("a key finds an upload", func(t *testing.T) {
		f, key := f.with(t), store.Idempotency{Key: "upload", Hash: "h"}
		id := begin(f, key)
		add(f, id, 0, 2)
		b := newBatch()
		b.Idempotency = key
		got, existed, err := f.OpenUpload(ctx, b, nil)
		f.must(err)
		if got != id || !existed {
			t.Errorf("found %s, existed %v", got, existed)
		}
		b.Idempotency.Hash = "other"
		_, _, err = f.OpenBatch(ctx, b)
		f.mustBe(err, job.ErrKeyUsed)
		f.must(f.DropUpload(ctx, tenant, id))
		begin(f, key)
	})
	t.Run("none of another tenant's", func(t *testing.T) {
		f, id := f.with(t), begin(f, store.Idempotency{})
		_, err := f.Upload(ctx, "stranger", id)
		f.mustBe(err, job.ErrNotFound)
		_, err = f.AppendChunk(ctx, "stranger", id, chunk(0), newJobs(1))
		f.mustBe(err, job.ErrNotFound)
		f.mustBe(f.SealUpload(ctx, "stranger", id, -1), job.ErrNotFound)
		f.mustBe(f.DropUpload(ctx, "stranger", id), job.ErrNotFound)
		plain := f.submit(newJobs(1)...)
		_, err = f.Upload(ctx, tenant, plain)
		f.mustBe(err, job.ErrNotFound)
	})
	t.Run("dropped", func(t *testing.T) {
		f, id := f.with(t), begin(f, store.Idempotency{})
		add(f, id, 0, 3)
		f.must(f.DropUpload(ctx, tenant, id))
		_, err := f.AppendChunk(ctx, tenant, id, chunk(1), newJobs(1))
		f.mustBe(err, job.ErrNotFound)
		f.mustBe(f.SealUpload(ctx, tenant, id, -1), job.ErrNotFound)
	})
	t.Run("one key for all who sign", func(t *testing.T) {
		a, err := f.SigningKey(ctx)
		f.must(err)
		b, err := f.SigningKey(ctx)
		f.must(err)
		if len(a) < 32 || !bytes.Equal(a, b) {
			t.Errorf("keys of %d and %d bytes, equal %v", len(a), len(b), bytes.Equal(a, b))
		}
	})
}

func testUploadWhole(f *fixture, id job.ID, add func(*fixture, job.ID, int64, int)) {
	ctx := f.Context()
	add(f, id, 0, 2)
	_, err := f.Batch(ctx, tenant, id)
	f.mustBe(err, job.ErrNotFound)
	add(f, id, 1, 3)
	if jobs, _, err := f.Waiting(ctx, tenant); err != nil || jobs < 5 {
		f.Errorf("%d jobs wait, %v: those of an upload are among them", jobs, err)
	}
	u, err := f.Upload(ctx, tenant, id)
	f.must(err)
	if u.NextChunk != 2 || u.Jobs != 5 || u.Sealed || string(u.Defaults) != `{"pool": "p"}` || time.Until(u.DroppedAt) < time.Minute {
		f.Errorf("the upload is %+v", u)
	}
	for range 2 {
		f.must(f.SealUpload(ctx, tenant, id, -1))
	}
	if b := f.batch(id); b.Total != 5 || b.Counts[job.Queued] != 5 {
		f.Errorf("the batch is %+v", b)
	}
	if u, err = f.Upload(ctx, tenant, id); err != nil || !u.Sealed {
		f.Errorf("the upload is %+v, %v", u, err)
	}
	f.mustBe(f.DropUpload(ctx, tenant, id), job.ErrConflict)
}

// testChunkTwice sends one chunk many times at once.
func testChunkTwice(f *fixture, id job.ID, chunk func(int64) store.Chunk) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	fresh := 0
	for range 8 {
		wg.Go(func() {
			was, err := f.AppendChunk(f.Context(), tenant, id, chunk(0), newJobs(4))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				f.Error(err)
			}
			if was {
				fresh++
			}
		})
	}
	wg.Wait()
	u, err := f.Upload(f.Context(), tenant, id)
	f.must(err)
	if fresh != 1 || u.Jobs != 4 || u.NextChunk != 1 {
		f.Errorf("%d were new; the upload is %+v", fresh, u)
	}
	other := chunk(0)
	other.Digest[0]++
	_, err = f.AppendChunk(f.Context(), tenant, id, other, newJobs(4))
	f.mustBe(err, job.ErrConflict)
}
