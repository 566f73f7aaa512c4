package client_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	nouns "github.com/assay-run/assay/pkg/fleet"
)

// TestExecutions checks that the client lists executions after a given one.
func TestExecutions(t *testing.T) {
	t.Parallel()
	c := fleet(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/executions") || r.URL.Query().Get("after") != string(id) {
			answer(w, http.StatusNotFound, api.ProblemDetails{Status: http.StatusNotFound, Title: "Not found"})
			return
		}
		answer(w, http.StatusOK, api.ExecutionList{Executions: []nouns.Executed{{ID: id, Code: "1"}}})
	})
	list, err := c.Executions(t.Context(), id, id)
	if err != nil || len(list.Executions) != 1 || list.Executions[0].Code != "1" {
		t.Errorf("%+v, %v", list, err)
	}
}
