package client_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	nouns "github.com/assay-run/assay/pkg/fleet"
)

// Executions are listed by dispatchers that know the older name of the route alone, too.
func TestExecutionsOfOlderDispatchers(t *testing.T) {
	t.Parallel()
	c := fleet(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/executes") || r.URL.Query().Get("after") != string(id) {
			answer(w, http.StatusNotFound, api.ProblemDetails{Status: http.StatusNotFound, Title: "Not found"})
			return
		}
		answer(w, http.StatusOK, api.ExecuteList{Executes: []nouns.Executed{{ID: id, Code: "1"}}})
	})
	list, err := c.Executions(t.Context(), id, id)
	if err != nil || len(list.Executions) != 1 || list.Executions[0].Code != "1" {
		t.Errorf("%+v, %v", list, err)
	}
	old, err := c.Executes(t.Context(), id, id)
	if err != nil || len(old.Executes) != 1 {
		t.Errorf("by its older name: %+v, %v", old, err)
	}
}
