package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
)

// keyed posts to a dispatcher under an idempotency key; the end of ctx drops the connection.
// replayed reports whether the answer is of an earlier request.
func keyed(ctx context.Context, url, key string, body, out any) (status int, replayed bool, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return 0, false, err
	}
	req.Header.Set("Content-Type", api.JSON)
	req.Header.Set(api.HeaderIdempotencyKey, key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, false, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get(api.HeaderReplayed) == "true", json.NewDecoder(resp.Body).Decode(out)
}

// A request that is sent twice under its key takes effect once, at any dispatcher and after any end
// of the first connection.
func sessionKeys(t *testing.T, f *fleet) {
	listen := testenv.Address(t)
	if second, _ := f.dispatcherAt(t, listen); second == nil {
		t.Fatal("there is no second dispatcher")
	}
	bases := []string{f.URL(), "http://" + listen}
	name := string(job.NewID())
	var mu sync.Mutex
	made := map[job.ID]int{}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			var s job.Session
			status, _, err := keyed(t.Context(), bases[i%2]+"/v1/sessions", name, job.SessionSpec{Name: name}, &s)
			mu.Lock()
			defer mu.Unlock()
			if made[s.ID]++; err != nil || status != http.StatusCreated {
				t.Errorf("%d, %v", status, err)
			}
		})
	}
	if all.Wait(); len(made) != 1 {
		t.Fatalf("six requests made %v", made)
	}
	list, err := f.api.Sessions(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	var id job.ID
	for _, s := range list {
		if s.Spec.Name == name {
			if id != "" {
				t.Error("there is a second session")
			}
			id = s.ID
		}
	}
	f.execute(t, id, job.Succeeded, code("import time, pathlib\nn = 0"))

	// The connection breaks during the execution. A repeated request, here or at the other
	// dispatcher, waits for its result.
	rq := code("n += 1\npathlib.Path('begun').touch()\ntime.sleep(2)\nn")
	at := "/v1/sessions/" + string(id) + "/execute"
	ctx, drop := context.WithTimeout(t.Context(), time.Second)
	defer drop()
	if status, _, err := keyed(ctx, bases[0]+at, name+" x", rq, &job.Execute{}); err == nil {
		t.Fatalf("answered with %d before the connection broke", status)
	}
	ran := map[job.ID]bool{}
	for _, base := range append(bases, bases...) {
		var e job.Execute
		status, replayed, err := keyed(t.Context(), base+at, name+" x", rq, &e)
		if err != nil || status != http.StatusOK || !replayed || e.Value == nil || e.Value.Repr != "1" {
			t.Errorf("again: %d, replayed %v, %v: %+v", status, replayed, err, e)
		}
		ran[e.ID] = true
	}
	if e := f.execute(t, id, job.Succeeded, code("n")); e.Value.Repr != "1" || len(ran) != 1 {
		t.Errorf("it ran %s times, as %v", e.Value.Repr, ran)
	}
	var problem api.ProblemDetails
	if status, _, err := keyed(t.Context(), bases[1]+at, name+" x", code("n"), &problem); err != nil || status != http.StatusUnprocessableEntity {
		t.Errorf("another body: %d, %v", status, err)
	}
}
