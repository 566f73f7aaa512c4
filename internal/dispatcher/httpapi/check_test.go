package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/pkg/job"
)

// A check that no worker starts ends with an error and leaves the queue.
func TestCheckThatNobodyDoes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *parts) { c.Dispatcher = shut{c.Dispatcher.(*runner)} })
	f.runner.hold()
	resp, body := f.do("POST", "/v1/check?wait=300ms", `{"programs":[{"code":"x"}]}`)
	checkProblem(t, resp, body, http.StatusServiceUnavailable, "", 0)
	if !strings.Contains(body, "300ms") || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Location") != "" {
		t.Errorf("%v %s", resp.Header, body)
	}
	var list api.JobList
	f.want(http.StatusOK, &list, "GET", "/v1/jobs?state=canceled", "")
	if len(list.Jobs) != 1 || list.Jobs[0].Name != "check" {
		t.Errorf("canceled: %+v", list.Jobs)
	}
}

// shut is a dispatcher that dispatches nothing.
type shut struct{ *runner }

func (shut) Window(string) int { return 0 }

// Output of a sandbox without findings is an error and does not panic.
func TestCheckWithoutFindings(t *testing.T) {
	t.Parallel()
	f := newFleet(t) // its worker prints the code of the checking job
	resp, body := f.do("POST", "/v1/check", `{"image":null,"pool":null,"programs":[{"code":"x","name":null,"names":null,"policy":null}]}`)
	checkProblem(t, resp, body, http.StatusServiceUnavailable, "", 0)
	resp, body = f.do("POST", "/v1/check", `{"programs":[]}`)
	checkProblem(t, resp, body, 422, "programs", 0)
	resp, body = f.do("POST", "/v1/check", `{"programs":[{"code":"x","policy":{"memory":"1"}}]}`)
	checkProblem(t, resp, body, 422, "programs[0].policy.memory", 0)
	var jobs api.JobList
	f.want(http.StatusOK, &jobs, "GET", "/v1/jobs", "")
	if len(jobs.Jobs) != 1 || jobs.Jobs[0].State != job.Finished {
		t.Errorf("%+v", jobs.Jobs)
	}
}

// A missing image is an error of the request, because a retry would fail too.
func TestCheckWithoutItsImage(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	resp, body := f.do("POST", "/v1/check", `{"image":"nowhere","programs":[{"code":"x"}]}`)
	checkProblem(t, resp, body, http.StatusUnprocessableEntity, "image", 0)
}

// The stored output of a truncated check is not read.
func TestTruncatedCheck(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(job.Result{Outcome: job.Succeeded, Stdout: job.Output{Truncated: true, Stored: &job.StoredOutput{Bytes: 16 << 20, Object: "o"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := httpapi.Findings(t.Context(), raw); !errors.Is(err, job.ErrTooLarge) {
		t.Errorf("%v, want %v", err, job.ErrTooLarge)
	}
}
