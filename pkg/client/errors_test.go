package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cenkalti/backoff/v5"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// TestEachRowOfTheTableOfErrors checks that each row of the API's table of errors returns its own error, from
// reading and writing calls, and that the package documents it.
func TestEachRowOfTheTableOfErrors(t *testing.T) {
	t.Parallel()
	if all := api.Sentinels(); len(all) != len(sentinels) {
		t.Errorf("the table has %d errors, and %d are looked at here: %v", len(all), len(sentinels), all)
	}
	source, err := os.ReadFile("client.go")
	if err != nil {
		t.Fatal(err)
	}
	page, _, _ := strings.Cut(string(source), "\npackage client\n")
	for name, sentinel := range sentinels {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(page, "//\t"+name+" ") {
				t.Error("the comment of the package does not tell of it")
			}
			for what, err := range failures(t, sentinel) {
				if !errors.Is(err, sentinel) {
					t.Errorf("%s: %v", what, err)
				}
				for other, o := range sentinels {
					if o != sentinel && errors.Is(err, o) {
						t.Errorf("%s: it is %s as well: %v", what, other, err)
					}
				}
			}
		})
	}
	for what, err := range failures(t, errors.New("a secret of ours")) {
		for name, o := range sentinels {
			if err == nil || errors.Is(err, o) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s fails inside the server: %v, %s", what, err, name)
			}
		}
	}
}

// TestErrorsAreThoseOfThePythonClient checks that this client treats responses as the Python client does. The
// tests of both read one file, which has a case for each row of the table.
func TestErrorsAreThoseOfThePythonClient(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../api/testdata/errors.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []errorCase
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, err := range append(api.Sentinels(), errors.New("of the server's own")) {
		p := api.NewProblem(err)
		if !slices.ContainsFunc(cases, func(c errorCase) bool {
			return c.Status == p.Status && strings.Contains(string(c.Body), `"`+p.Type+`"`)
		}) {
			t.Errorf("errors.json has no case of %s with status %d", p.Type, p.Status)
		}
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}

// errorCase is a response, and the client's error for it.
type errorCase struct {
	Name      string            `json:"name"`
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	Body      json.RawMessage   `json:"body"` // text is the body itself, an object its JSON
	Error     string            `json:"go"`
	Field     string            `json:"field"`
	Line      int               `json:"line"`
	Detail    string            `json:"detail"`
	RequestID string            `json:"request_id"`
	Seconds   float64           `json:"retry_after"`
}

func (c errorCase) check(t *testing.T) {
	body := []byte(c.Body)
	var text string
	if json.Unmarshal(body, &text) == nil {
		body = []byte(text)
	}
	cl := fleet(t, func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range c.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(c.Status)
		_, _ = w.Write(body)
	}, client.WithPatience(0))
	_, err := cl.Submit(t.Context(), job.Spec{})
	want, known := sentinels[c.Error]
	if err == nil || known && !errors.Is(err, want) || !known && c.Error != "internal" {
		t.Fatalf("got %v, want %s", err, c.Error)
	}
	for name, other := range sentinels {
		if name != c.Error && errors.Is(err, other) && (c.Field == "" || other != job.ErrInvalid) {
			t.Errorf("it is %s as well: %v", name, err)
		}
	}
	var field *job.FieldError
	if errors.As(err, &field) != (c.Field != "") || field != nil && (field.Field != c.Field || field.Line != c.Line) {
		t.Errorf("the field is %+v, want %q in line %d", field, c.Field, c.Line)
	}
	if !strings.Contains(err.Error(), c.Detail) || c.Error == "internal" && !strings.Contains(err.Error(), c.RequestID) {
		t.Errorf("%q does not say %q", err, c.Detail)
	}
	var later *backoff.RetryAfterError
	if errors.As(err, &later) != (c.Seconds > 0) || later != nil && later.Duration.Seconds() < c.Seconds {
		t.Errorf("to be tried again in %+v, want %v s", later, c.Seconds)
	}
}

// sentinels are the rows of the API's table of errors, but for the last.
var sentinels = map[string]error{
	"api.ErrUnauthorized": api.ErrUnauthorized, "job.ErrRefused": job.ErrRefused, "job.ErrInvalid": job.ErrInvalid, "api.ErrMethod": api.ErrMethod,
	"api.ErrMismatch": api.ErrMismatch, "api.ErrSlow": api.ErrSlow, "job.ErrKeyUsed": job.ErrKeyUsed, "job.ErrConflict": job.ErrConflict, "job.ErrStale": job.ErrStale,
	"job.ErrLost": job.ErrLost, "job.ErrNotFound": job.ErrNotFound, "job.ErrGone": job.ErrGone, "job.ErrErased": job.ErrErased, "job.ErrTooLarge": job.ErrTooLarge,
	"job.ErrTooMany": job.ErrTooMany, "job.ErrUnavailable": job.ErrUnavailable, "context.DeadlineExceeded": context.DeadlineExceeded,
}

// failures are what calls get that a server answers with an error.
func failures(t *testing.T, err error) map[string]error {
	t.Helper()
	c := fleet(t, func(w http.ResponseWriter, _ *http.Request) {
		p := api.NewProblem(fmt.Errorf("do it: %w", err))
		w.Header().Set("Content-Type", api.Problem)
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p)
	}, client.WithPatience(0))
	_, read := c.Job(t.Context(), id, 0)
	_, written := c.Submit(t.Context(), job.Spec{})
	_, listed := c.Workers(t.Context())
	return map[string]error{"read": read, "submit": written, "list": listed}
}
