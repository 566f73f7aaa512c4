package image

import (
	"context"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
)

func TestWhoseImage(t *testing.T) {
	t.Parallel()
	m := &Store{trusted: []string{"docker.io/library/python", "ghcr.io/ours/", "quay.io/a/b:1"}}
	for ref, want := range map[string]bool{
		"assay.local/python:latest": true, "docker.io/library/python:3.12": true, "docker.io/library/python@sha256:00": true,
		"ghcr.io/ours/x:1": true, "quay.io/a/b:1": true,
		"docker.io/library/python-evil:3": false, "docker.io/library/python/evil:3": false, "ghcr.io/ours-not/x:1": false,
		"quay.io/a/b:12": false, "quay.io/a/b:2": false, "assay.local.example.org/python:latest": false, "docker.io/assay.local/python:1": false,
	} {
		if got := m.operators(ref, nil); got != want {
			t.Errorf("%s: %v, want %v", ref, got, want)
		}
	}
	if !m.operators("docker.io/tenant/x:1", map[string]string{archiveLabel: "1"}) {
		t.Error("an archive of the worker's is not the operator's")
	}
	if err := checkTrusted([]string{"docker.io/library/python", "docker.io/library/python:3", "ghcr.io/ours/"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "/", "python", "library/python", "ghcr.io/UP", "a b"} {
		if checkTrusted([]string{bad}) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestTheSameContentIsTheOperators checks that an image named by digest is the operator's image if the
// operator has that digest. Other content is not, whatever name a registry gives it.
func TestTheSameContentIsTheOperators(t *testing.T) {
	m := newStore(t, nil)
	base, err := m.Get(t.Context(), testenv.Image)
	if err != nil {
		t.Fatal(err)
	}
	service := m.client.ImageService()
	record, err := service.Get(t.Context(), testenv.Image)
	if err != nil {
		t.Fatal(err)
	}
	record.Name, record.Labels = "docker.io/tenant/same:1", nil
	if _, err := service.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Delete(context.WithoutCancel(t.Context()), record.Name) })
	same, err := m.Get(t.Context(), record.Name)
	if err != nil || same.Own == nil || same.Digest != base.Digest {
		t.Errorf("known content: %+v, %v", same, err)
	}
	othem := newStore(t, nil)
	if first, err := othem.Get(t.Context(), record.Name); err != nil || first.Own != nil {
		t.Errorf("content that the operator has not named: %+v, %v", first, err)
	}
	if now, err := othem.Get(t.Context(), testenv.Image); err != nil || now.Own != now {
		t.Errorf("and once they have: %+v, %v", now, err)
	}
}
