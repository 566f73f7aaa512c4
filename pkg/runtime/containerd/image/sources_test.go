package image

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSources(t *testing.T) {
	t.Parallel()
	got, err := ParseSources([]string{"docker.io/library?pull=always", "http://10.0.0.5:5000", "ghcr.io/ours?trusted", "docker.io/library/python?trusted&pull=if_not_present",
		"quay.io/a/b:1?trusted&pull=never", "docker.io=http://10.0.0.6"})
	want := Sources{
		Registries: []string{"docker.io/library", "http://10.0.0.5:5000", "ghcr.io/ours", "docker.io/library/python"},
		Mirrors:    []string{"docker.io=http://10.0.0.6"},
		Trusted:    []string{"ghcr.io/ours", "ghcr.io/ours/", "docker.io/library/python", "docker.io/library/python/", "quay.io/a/b:1"},
		Always:     []string{"docker.io/library/"},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	for entry, says := range map[string]string{
		"docker.io/library=mirror.example.com/hub": "whole host", "docker.io=mirror.example.com?trusted": "no attributes", "ghcr.io?pull=sometimes": "if_not_present",
		"ghcr.io?pull=": "if_not_present", "ghcr.io?trust": "neither trusted nor pull=", "ghcr.io?trusted=no": "neither trusted", "ghcr.io?%zz": "is not like", "a b?trusted": "full name",
	} {
		if _, err := ParseSources([]string{entry}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %s", entry, err, says)
		}
	}
}
