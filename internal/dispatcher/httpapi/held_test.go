package httpapi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// labeled returns a job with labels, given as KEY=VALUE.
func labeled(labels ...string) job.Spec {
	s := job.Spec{Program: job.Program{Python: &job.Python{Code: "1"}}, Labels: map[string]string{}}
	for _, text := range labels {
		k, v, _ := strings.Cut(text, "=")
		s.Labels[k] = v
	}
	return s
}

// A key restricted to a label submits nothing without it, and neither sees nor ends other jobs.
func TestHeldToALabel(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withKeys(t, "all=a"))
	all := f.client(client.WithToken("all"))
	held := f.client(client.WithToken(f.key("all", api.KeyRequest{Name: "run 7", Label: "run=7"}).Token))
	made, err := held.Run(t.Context(), labeled("x=y"))
	if err != nil {
		t.Fatal(err)
	}
	if j, err := all.Job(t.Context(), made.ID, 0); err != nil || fmt.Sprint(j.Spec.Labels) != "map[run:7 x:y]" {
		t.Errorf("the job has labels %v, %v", j.Spec.Labels, err)
	}
	if _, err := held.Run(t.Context(), labeled("run=8")); !errors.Is(err, job.ErrRefused) {
		t.Errorf("a job with another label: %v", err)
	}
	batch, err := held.SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(lines(2)))
	if err != nil || batch.Labels["run"] != "7" {
		t.Fatalf("a batch: %+v, %v", batch, err)
	}
	for what, err := range map[string]error{
		"a batch with another label": second(held.SubmitBatch(t.Context(), client.BatchOptions{Labels: map[string]string{"run": "8"}}, strings.NewReader(lines(1)))),
		"a line with another label":  second(held.SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(lines(1)+`{"labels":{"run":"8"},"program":{"python":{"code":"1"}}}`+"\n"))),
		"to cancel another label":    second(held.CancelLabeled(t.Context(), map[string]string{"run": "8"})),
		"a policy":                   held.PutPolicy(t.Context(), "p", []byte(`{}`)),
		"a secret":                   held.PutSecret(t.Context(), "s", "v"),
	} {
		if !errors.Is(err, job.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if j, err := held.Job(t.Context(), made.ID, 0); err != nil || j.ID != made.ID {
		t.Errorf("its own job: %v", err)
	}
	seen := 0
	for raw, err := range held.Results(t.Context(), batch.ID, true) {
		if seen++; err != nil {
			t.Fatalf("its own batch: %s, %v", raw, err)
		}
	}
	if seen != 2 {
		t.Errorf("its own batch has %d results", seen)
	}
}

// A key restricted to a label cannot reach objects with another label through any operation: see
// TestNoOperationCrossesTenants.
func TestNoOperationCrossesLabels(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withKeys(t, "all=a"))
	o := ownedByA(f, "all")
	held := f.key("all", api.KeyRequest{Name: "held", Label: "run=other"}).Token
	ofTenant := []string{"listPolicies", "getPolicy", "explainPolicy", "putBlob", "headBlob", "run", "submitJob", "submitBatch"} // without labels, or given the label
	f.tryAll(o, held, func(op *openapi3.Operation) bool { return !slices.Contains(ofTenant, op.OperationID) })
	f.cancelsNothing(o, held)
	f.unchanged(o)
	mine := f.client(client.WithToken(held))
	in, err := f.client(client.WithToken("all")).SubmitBatch(t.Context(), client.BatchOptions{Labels: map[string]string{"run": "other"}}, strings.NewReader(lines(1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mine.Batch(t.Context(), in.ID, 10*time.Second); err != nil {
		t.Errorf("a batch with the label that another made: %v", err)
	}
	var batches, jobs []job.ID
	for b, err := range mine.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b.ID)
	}
	for j, err := range mine.Jobs(t.Context(), client.JobFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, j.ID)
	}
	if len(batches) != 1 || batches[0] != in.ID || len(jobs) != 1 {
		t.Fatalf("it sees batches %v and jobs %v, want %s alone", batches, jobs, in.ID)
	}
	if j, err := mine.Job(t.Context(), jobs[0], 0); err != nil || j.BatchID != in.ID { // it inherits the batch's label
		t.Errorf("a job of it: %+v, %v", j, err)
	}
}

// A key restricted to a policy runs nothing under another policy.
func TestHeldToAPolicy(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withKeys(t, "all=a"))
	all := f.client(client.WithToken("all"))
	for name, wall := range map[string]string{"strict": "7s", "lax": "70s"} {
		if err := all.PutPolicy(t.Context(), name, []byte(`{"wall":"`+wall+`"}`)); err != nil {
			t.Fatal(err)
		}
	}
	held := f.client(client.WithToken(f.key("all", api.KeyRequest{Name: "strict", Policy: "strict"}).Token))
	under := func(policy string) job.Spec {
		s := labeled()
		if policy != "" {
			s.Policy = []byte(policy)
		}
		return s
	}
	for _, policy := range []string{"", "null", `"strict"`} {
		made, err := held.Run(t.Context(), under(policy))
		if err != nil {
			t.Errorf("policy %s: %v", policy, err)
			continue
		}
		if j, err := all.Job(t.Context(), made.ID, 0); err != nil || !strings.Contains(string(j.Spec.Policy), `"wall":"7s"`) {
			t.Errorf("policy %s: it runs under %s, %v", policy, j.Spec.Policy, err)
		}
	}
	defaults := client.BatchOptions{Defaults: []byte(`{"policy":"lax"}`)}
	for what, err := range map[string]error{
		"another": second(held.Run(t.Context(), under(`"lax"`))), "an older one": second(held.Run(t.Context(), under(`"strict@1"`))),
		"its own words": second(held.Run(t.Context(), under(`{}`))), "defaults of a batch": second(held.SubmitBatch(t.Context(), defaults, strings.NewReader(lines(1)))),
		"to change it": held.PutPolicy(t.Context(), "strict", []byte(`{}`)), "to read another": second(held.Policy(t.Context(), "lax")),
	} {
		if !errors.Is(err, job.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := held.Policy(t.Context(), "strict"); err != nil {
		t.Errorf("to read its own: %v", err)
	}
}

// An idempotency key belongs to the restrictions of the first request. It does not show a job to keys with other
// restrictions.
func TestHeldDoesNotReplayOthers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withKeys(t, "all=a"))
	held := f.key("all", api.KeyRequest{Name: "x", Label: "run=7"}).Token
	send := func(token string) int {
		resp, _ := f.do("POST", "/v1/jobs", python("1"), "Authorization", "Bearer "+token, "Idempotency-Key", "k")
		return resp.StatusCode
	}
	if first, same, other := send("all"), send("all"), send(held); first != 201 || same != 201 || other != 422 {
		t.Errorf("answers %d, %d, and to who is held %d", first, same, other)
	}
}

func TestLabelsOfKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]identity.Label{"": {}, "a=b": {Key: "a", Value: "b"}, "a=b=c": {Key: "a", Value: "b=c"}, "a=": {Key: "a"}} {
		if got, err := identity.ParseLabel(text); err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"a", "=b", "="} {
		if _, err := identity.ParseLabel(text); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
