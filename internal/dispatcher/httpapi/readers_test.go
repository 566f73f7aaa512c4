package httpapi_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

var readersFor = flag.Duration("readers.for", 0, "how long 64 readers of large pages go on beside heartbeats; 0: until each has had a page or a refusal")

// TestReadersBesideHeartbeats: 64 clients read pages of 1 MiB results in a loop. Rejections are 429 with Retry-After,
// another tenant's page succeeds, and heartbeats and the leader succeed. With -readers.for they must also be in time:
// on a machine with two cores their p99 was 1.3 s on c877d6f, and is 18 ms.
func TestReadersBesideHeartbeats(t *testing.T) {
	f := crowded(t, httpapi.Limits{Reads: 2})
	f.runner.hold()
	mean, lease := f.largeResults("mean", 8)
	kind, _ := f.largeResults("kind", 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	defer transport.CloseIdleConnections()
	page := func(token string, batch job.ID) (int, string, error) {
		req, err := http.NewRequestWithContext(ctx, "GET", f.url+"/v1/batches/"+string(batch)+"/results?limit=8", nil)
		if err != nil {
			return 0, "", err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Header.Get("Retry-After"), err
	}
	var answered [64]atomic.Bool
	var pages, refusals atomic.Int64
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	for i := range answered {
		readers.Go(func() {
			for ctx.Err() == nil {
				code, again, err := page("of-mean", mean)
				switch wait, bad := strconv.Atoi(again); {
				case ctx.Err() != nil:
					return
				case err == nil && code == http.StatusOK:
					pages.Add(1)
				case err == nil && code == http.StatusTooManyRequests && bad == nil && wait > 0:
					refusals.Add(1)
				default:
					t.Errorf("a reader: %d, again after %q, %v", code, again, err)
					return
				}
				answered[i].Store(true)
			}
		})
	}
	var beats, leads []time.Duration
	timed := func(of *[]time.Duration, what string, call func(context.Context) error) {
		start := time.Now()
		if err := call(t.Context()); err != nil { // the store's own timeout is 15 s
			t.Errorf("%s: %v", what, err)
		}
		*of = append(*of, time.Since(start))
	}
	begun := time.Now()
	await := func() bool {
		for i := range answered {
			if !answered[i].Load() {
				return false
			}
		}
		return time.Since(begun) > *readersFor
	}
	for !await() && !t.Failed() {
		if time.Since(begun) > *readersFor+2*time.Minute {
			t.Fatal("some reader was never answered")
		}
		timed(&beats, "a heartbeat", func(ctx context.Context) error {
			lost, _, err := f.store.Heartbeat(ctx, time.Minute, []store.Held{{LeaseRef: lease, Worker: "w"}})
			if err == nil && len(lost) > 0 {
				err = job.ErrLost
			}
			return err
		})
		timed(&leads, "the leader", func(ctx context.Context) error {
			_, err := f.store.Lead(ctx, "role", "me", 3*time.Second)
			return err
		})
		time.Sleep(20 * time.Millisecond)
	}
	if code, _, err := page("of-kind", kind); code != http.StatusOK {
		t.Errorf("the other tenant's page: %d, %v", code, err)
	}
	slices.Sort(beats)
	slices.Sort(leads)
	t.Logf("%d pages, %d refusals; of %d heartbeats p99 %v, longest %v; of the leader's p99 %v, longest %v", pages.Load(), refusals.Load(), len(beats),
		beats[len(beats)*99/100], beats[len(beats)-1], leads[len(leads)*99/100], leads[len(leads)-1])
	if *readersFor > 0 && max(beats[len(beats)*99/100], leads[len(leads)*99/100]) > time.Second {
		t.Error("heartbeats and the leader wait for readers")
	}
}

// largeResults makes a batch of a tenant in which n jobs have results of 1 MiB, and one runs under the returned lease.
func (f *fleet) largeResults(tenant string, n int) (job.ID, store.LeaseRef) {
	f.t.Helper()
	var b api.BatchRequest
	for range n + 1 {
		b.Jobs = append(b.Jobs, json.RawMessage(python("ok")))
	}
	body, err := json.Marshal(b)
	if err != nil {
		f.t.Fatal(err)
	}
	var made job.Batch
	f.want(http.StatusCreated, &made, "POST", "/v1/batches", string(body), "Authorization", "Bearer of-"+tenant)
	ds, err := f.store.Schedule(f.t.Context(), []string{placement.Any}, n+1)
	if err != nil || len(ds) != n+1 {
		f.t.Fatalf("%d of %d jobs were dispatched: %v", len(ds), n+1, err)
	}
	var last store.LeaseRef
	for i, d := range ds {
		got, err := f.store.Claim(f.t.Context(), time.Hour, []store.Claim{{Ref: d.Ref, Worker: "w"}})
		if err != nil || got[0].Lease == 0 {
			f.t.Fatalf("claim: %v, %v", got, err)
		}
		last = store.LeaseRef{Job: d.Job, Lease: got[0].Lease}
		if i == n {
			break
		}
		result := fmt.Sprintf(`{"outcome":"succeeded","stdout":{"text":"%s","bytes":1048576}}`, strings.Repeat("x", 1<<20))
		done, err := f.store.Finish(f.t.Context(), []store.Finish{{LeaseRef: last, Worker: "w", BatchID: made.ID, Outcome: job.Succeeded, Result: json.RawMessage(result)}})
		if err != nil || done[0] != store.Recorded {
			f.t.Fatalf("finish: %v, %v", done, err)
		}
	}
	return made.ID, last
}
