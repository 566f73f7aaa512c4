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

// The list has the whole catalogue, and the languages of the image.
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
	// A program in a language that the image lacks is refused. For an image with an unknown list, the worker decides.
	resp, body := f.do("POST", "/v1/jobs", `{"program":{"code":{"language":"Haskell","source":"main = pure ()"}}}`)
	checkProblem(t, resp, body, 422, "program.code.language", 0)
	if !strings.Contains(body, "the image python has no haskell, but python; no known image of this fleet has it") {
		t.Error(body)
	}
	resp, body = f.do("POST", "/v1/batches", `{"program":{"code":{"language":"python","source":"1"}}}`+"\n"+`{"program":{"code":{"language":"c","source":"1"}}}`+"\n", "Content-Type", "application/x-ndjson")
	checkProblem(t, resp, body, 422, "program.code.language", 2)
	f.want(http.StatusCreated, nil, "POST", "/v1/jobs", `{"image":"ghcr.io/a/own:v1","program":{"code":{"language":"haskell","source":"main = pure ()"}}}`)
	found, err := f.client().Languages(t.Context(), "polyglot")
	if err != nil || found.Image != "polyglot" {
		t.Errorf("the client gets %v, %v", found.Image, err)
	}
	resp, body = f.do("GET", "/v1/languages?image="+strings.Repeat("x", 501), "")
	checkProblem(t, resp, body, 422, "image", 0)
}
