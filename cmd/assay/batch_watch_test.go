package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// Where nobody looks, a batch is printed once; one that is not there is an error, and no screen.
func TestBatchWatchWithoutATerminal(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/batches/"+string(someID)+"/summary" {
			w.Header().Set("Content-Type", api.Problem)
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(api.NewProblem(job.ErrNotFound))
			return
		}
		w.Header().Set("Content-Type", api.JSON)
		_ = json.NewEncoder(w).Encode(fleet.BatchSummary{Batch: job.Batch{ID: someID, Total: 3, Counts: map[job.State]int64{job.Finished: 2}},
			Clusters: []fleet.FailureCluster{{Outcome: job.Exception, Exception: "KeyError", Jobs: 2, Example: someID}}})
	}))
	defer s.Close()
	for id, want := range map[job.ID]struct {
		code int
		says string
	}{someID: {0, "KeyError"}, job.NewID(): {exitOurs, "not found"}} {
		var out, errs strings.Builder
		code := run(t.Context(), []string{"--url", s.URL, "batch", "watch", string(id)}, strings.NewReader(""), &out, &errs)
		if code != want.code || !strings.Contains(out.String()+errs.String(), want.says) {
			t.Errorf("%s: %d\n%s%s", id, code, out.String(), errs.String())
		}
	}
}
