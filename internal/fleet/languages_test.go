package fleet

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

// What an image has is what its label says where every worker that has the image says the same.
func TestLanguagesOfImages(t *testing.T) {
	t.Parallel()
	old, now := map[string]string{"c": "gcc 11"}, map[string]string{"c": "gcc 12", "lua": "5.4"}
	image := func(name string, languages map[string]string) policy.HostImage {
		return policy.HostImage{Name: name, Digest: "sha256:1", Languages: languages}
	}
	f, l := newTestFleet()
	for id, images := range map[string][]policy.HostImage{
		"a": {image("assay.local/one:latest", now), image("assay.local/two:latest", old), image("ghcr.io/x/y:v1", now), image("assay.local/mute:latest", nil)},
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
}
