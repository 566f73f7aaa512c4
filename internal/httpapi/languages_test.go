package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/language"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// The catalogue is listed whole, with what an image says that it has.
func TestLanguages(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	host, err := json.Marshal(policy.Host{Isolations: []policy.Isolation{policy.Task}, Images: []policy.HostImage{
		{Name: "assay.local/python:latest", Digest: "sha256:1", Languages: map[string]string{"python": "Python 3.11.2"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.PutWorkers(t.Context(), []store.Worker{{ID: "a", Pool: pool, Slots: 1, Host: host}}); err != nil {
		t.Fatal(err)
	}
	for query, known := range map[string]bool{"": true, "?image=python": true, "?image=polyglot": false} {
		var out api.LanguageList
		f.want(http.StatusOK, &out, "GET", "/v1/languages"+query, "")
		if len(out.Languages) != len(language.All()) {
			t.Errorf("%q: %d languages", query, len(out.Languages))
		}
		for _, l := range out.Languages {
			there := l.Available != nil && *l.Available
			if (l.Available != nil) != known || there != (known && l.Name == "python") || (l.Version == "Python 3.11.2") != there {
				t.Errorf("%q: %+v", query, l)
			}
		}
	}
	found, err := f.client().Languages(t.Context(), "polyglot")
	if err != nil || found.Image != "polyglot" {
		t.Errorf("the client gets %v, %v", found.Image, err)
	}
	resp, body := f.do("GET", "/v1/languages?image="+strings.Repeat("x", 501), "")
	checkProblem(t, resp, body, 422, "image", 0)
}
