package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
)

// The table has what the image has, and says what it lacks, or that it does not say; JSON is the answer as it came.
func TestLanguages(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	found := api.LanguageList{Image: "python", Languages: []api.Language{
		{Name: "cpp", Aliases: []string{"c++", "cxx"}, File: "main.cpp", Compile: &api.LanguageStep{}, Version: "g++ 12.2.0\x1b[2J", Available: &yes},
		{Name: "haskell", Aliases: []string{"hs"}, File: "main.hs", Compile: &api.LanguageStep{}, Available: &no},
		{Name: "python", Aliases: []string{}, File: "main.py", Version: "Python 3.11.2", Available: &yes},
	}}
	s := &server{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := found
		if out.Image = r.URL.Query().Get("image"); out.Image == "mute" {
			out.Languages = []api.Language{{Name: "lua", Aliases: []string{}, File: "main.lua"}}
		}
		w.Header().Set("Content-Type", api.JSON)
		_ = json.NewEncoder(w).Encode(out)
	}))}
	t.Cleanup(s.Close)
	for image, wants := range map[string][]string{
		"python": {"LANGUAGE ALIASES FILE COMPILED VERSION", "cpp c++ cxx main.cpp yes g++ 12.2.0", "python - main.py no Python 3.11.2", "not in image python: haskell"},
		"mute":   {"lua - main.lua no -", "image mute does not list its languages"},
	} {
		code, out, stderr := s.assay(t.Context(), "", "languages", "--image", image)
		words := strings.Join(strings.Fields(out), " ")
		for _, want := range wants {
			if code != 0 || !strings.Contains(words, want) || strings.Contains(out, "\x1b") {
				t.Errorf("%s: %d, %q lacks %q: %s", image, code, words, want, stderr)
			}
		}
	}
	code, out, stderr := s.assay(t.Context(), "", "--json", "languages", "--image", "python")
	var got api.LanguageList
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Image != "python" || len(got.Languages) != 3 || *got.Languages[1].Available {
		t.Errorf("%d, %v, %s, %s", code, err, out, stderr)
	}
}
