package fleet

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// TestLanguagesOfImages checks that an image's label counts if every worker with the image reports the same.
func TestLanguagesOfImages(t *testing.T) {
	t.Parallel()
	old, now := map[string]string{"c": "gcc 11"}, map[string]string{"c": "gcc 12", "lua": "5.4"}
	image := func(name string, languages map[string]string) policy.HostImage {
		return policy.HostImage{Name: name, Digest: "sha256:1", Languages: languages}
	}
	pulled := image("ghcr.io/x/y:v1", now)
	pulled.Pulled = true
	f, l := newTestFleet()
	for id, images := range map[string][]policy.HostImage{
		"a": {image("assay.local/one:latest", now), image("assay.local/two:latest", old), pulled, image("assay.local/mute:latest", nil)},
		"b": {image("assay.local/one:latest", now), image("assay.local/two:latest", now), image("assay.local/mute:latest", now)},
		"c": {},
	} {
		host, err := json.Marshal(policy.Host{Isolations: []policy.Isolation{policy.Task}, Images: images})
		if err != nil {
			t.Fatal(err)
		}
		l.ws[id] = store.Worker{ID: id, Host: host}
	}
	for name, want := range map[string]map[string]string{
		"one": now, "one:latest": now, "assay.local/one": now, "ghcr.io/x/y:v1": now,
		"two": nil, "mute": nil, "three": nil, "one:v2": nil, "ghcr.io/x/y": nil, "": nil, "one@sha256:1": nil,
	} {
		if got := f.Languages(name); !maps.Equal(got, want) {
			t.Errorf("%q has %v, want %v", name, got, want)
		}
	}
	for image, lacks := range map[string]bool{"one": false, "ghcr.io/x/y:v1": false, "two": false, "mute": false, "three": false} {
		if has, got := f.Lacks(image, "lua"); got != lacks || has != nil {
			t.Errorf("%s lacks lua: %v, %v", image, has, got)
		}
	}
	if has, lacks := f.Lacks("one", "haskell"); !lacks || !slices.Equal(has, []string{"c", "lua"}) {
		t.Errorf("one lacks haskell: %v, %v", has, lacks)
	}
	if got := f.With("lua"); !slices.Equal(got, []string{"one"}) {
		t.Errorf("lua is in %v", got)
	}
	if got := f.With("haskell"); len(got) > 0 {
		t.Errorf("haskell is in %v", got)
	}
}
