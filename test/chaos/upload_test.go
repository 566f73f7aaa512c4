package chaos

import (
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
)

// TestUploadOutlivesItsDispatcher kills the only dispatcher while it receives chunks of an upload.
// The batch still has each of its jobs once.
func TestUploadOutlivesItsDispatcher(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shape{dispatchers: 1, workers: -1})
	d := f.dispatchers[0]
	d.keep()
	const n, chunk = 30_000, 10_000 // the client's chunk size
	var kills atomic.Int64
	r, w := io.Pipe()
	go func() {
		var err error
		for i := 0; i < n && err == nil; i++ {
			if i%chunk == chunk-1 { // the following chunk is sent in a moment, and takes the dispatcher a few hundred milliseconds
				time.AfterFunc(time.Duration(50+i/chunk*50)*time.Millisecond, func() { d.kill(); kills.Add(1) })
			}
			_, err = fmt.Fprintf(w, `{"name":"%d","program":{"python":{"code":"# fake: "}}}`+"\n", i)
		}
		_ = w.CloseWithError(err)
	}()
	b, err := f.api.Upload(t.Context(), client.BatchOptions{Name: "outlives", Key: "one"}, r)
	if err != nil {
		t.Fatal(err)
	}
	if kills.Load() < 2 {
		t.Errorf("the dispatcher was killed %d times", kills.Load())
	}
	names := f.count(`SELECT count(DISTINCT substring(identity from '"name":"([0-9]+)"')) FROM jobs WHERE batch_id = $1`, string(b.ID))
	if rows := f.count(`SELECT count(*) FROM jobs WHERE batch_id = $1`, string(b.ID)); b.Total != n || rows != n || names != n {
		t.Errorf("the batch has %d jobs, %d rows and %d names, want %d", b.Total, rows, names, n)
	}
	if batches := f.count(`SELECT count(*) FROM batches`); batches != 1 {
		t.Errorf("%d batches, want 1", batches)
	}
}
