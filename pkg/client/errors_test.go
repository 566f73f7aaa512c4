package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// Each row of the API's table of errors comes back as its own error, of calls that read and of calls that write, and the
// package says so.
func TestEachRowOfTheTableOfErrors(t *testing.T) {
	t.Parallel()
	rows := map[string]error{
		"api.ErrUnauthorized": api.ErrUnauthorized, "job.ErrRefused": job.ErrRefused, "job.ErrInvalid": job.ErrInvalid, "api.ErrMethod": api.ErrMethod,
		"api.ErrMismatch": api.ErrMismatch, "api.ErrSlow": api.ErrSlow, "job.ErrKeyUsed": job.ErrKeyUsed, "job.ErrConflict": job.ErrConflict,
		"job.ErrLost": job.ErrLost, "job.ErrNotFound": job.ErrNotFound, "job.ErrGone": job.ErrGone, "job.ErrTooLarge": job.ErrTooLarge,
		"job.ErrTooMany": job.ErrTooMany, "job.ErrUnavailable": job.ErrUnavailable, "context.DeadlineExceeded": context.DeadlineExceeded,
	}
	if all := api.Sentinels(); len(all) != len(rows) {
		t.Errorf("the table has %d errors, and %d are looked at here: %v", len(all), len(rows), all)
	}
	source, err := os.ReadFile("client.go")
	if err != nil {
		t.Fatal(err)
	}
	page, _, _ := strings.Cut(string(source), "\npackage client\n")
	for name, sentinel := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(page, "//\t"+name+" ") {
				t.Error("the comment of the package does not tell of it")
			}
			for what, err := range failures(t, sentinel) {
				if !errors.Is(err, sentinel) {
					t.Errorf("%s: %v", what, err)
				}
				for other, o := range rows {
					if o != sentinel && errors.Is(err, o) {
						t.Errorf("%s: it is %s as well: %v", what, other, err)
					}
				}
			}
		})
	}
	for what, err := range failures(t, errors.New("a secret of ours")) {
		for name, o := range rows {
			if err == nil || errors.Is(err, o) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s fails inside the server: %v, %s", what, err, name)
			}
		}
	}
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
