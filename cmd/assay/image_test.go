package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/store"
)

func saysImages(t *testing.T, id string, more int, images ...policy.HostImage) store.Worker {
	t.Helper()
	raw, err := json.Marshal(policy.Host{Images: images, ImagesMore: more})
	if err != nil {
		t.Fatal(err)
	}
	return store.Worker{ID: id, Host: raw}
}

// A row for each image and digest, with how many workers have it; who says nothing is named.
func TestImageList(t *testing.T) {
	t.Parallel()
	one, two := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	python := policy.HostImage{Name: "assay.local/python:latest", Digest: one, Bytes: 3 << 29}
	pulled := policy.HostImage{Name: "a/\x1bb:1", Digest: one, Bytes: 5 << 19, Pulled: true}
	moved, unknown := pulled, python
	moved.Digest, moved.Bytes, unknown.Bytes = two, 1024, 0
	list := api.WorkerList{Workers: []store.Worker{
		saysImages(t, "w1", 3, python, pulled), saysImages(t, "w2", 2, unknown, moved), {ID: "old", Host: []byte(`{"cores":4}`)}, {ID: "new"},
	}}
	s := &server{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.JSON)
		_ = json.NewEncoder(w).Encode(list)
	}))}
	t.Cleanup(s.Close)
	code, out, errs := s.assay(t.Context(), "", "image", "list")
	want := []string{"IMAGE DIGEST SIZE WHOSE WORKERS", "assay.local/python:latest 111111111111 1.5Gi operator 2", "a/\uFFFDb:1 111111111111 2.5Mi pulled 1", "a/\uFFFDb:1 222222222222 1.0Ki pulled 1",
		fmt.Sprintf("and 5 more that workers did not list: each names %d", policy.MaxHostImages), "old has not reported its images", "new has not reported its images"}
	var got []string
	for line := range strings.Lines(out) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if d := cmp.Diff(want, got); d != "" || code != 0 || errs != "" {
		t.Errorf("exit %d, %s (-want +got):\n%s", code, errs, d)
	}
	code, out, _ = s.assay(t.Context(), "", "--json", "image", "list")
	var all imageList
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 || len(all.Images) != 3 || all.Images[0].Workers != 2 || all.Workers != 2 || all.Unlisted != 5 || len(all.Silent) != 2 {
		t.Errorf("--json: exit %d, %v, %s", code, err, out)
	}
	list = api.WorkerList{Pools: []api.PoolSummary{{Pool: "default", Workers: 4}}} // what a tenant is shown
	if code, _, errs := s.assay(t.Context(), "", "image", "list"); code != exitOurs || !strings.Contains(errs, "operator's token") {
		t.Errorf("a tenant: exit %d, %s", code, errs)
	}
	list = api.WorkerList{}
	if code, out, _ := s.assay(t.Context(), "", "--json", "image", "list"); code != 0 || out != `{"images":[],"workers":0,"silent":[],"unlisted":0}`+"\n" {
		t.Errorf("no workers: exit %d, %s", code, out)
	}
}

// Whatever is wrong with the flags is said with their names. With a containerd, the commands
// are tested in test/e2e.
func TestImageFlags(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "a.tar")
	if err := os.WriteFile(archive, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ASSAY_STATE_DIR", dir)
	s := &server{Server: httptest.NewServer(http.NotFoundHandler())}
	defer s.Close()
	for says, args := range map[string][]string{
		`missing "<file> ..."`: {"import"},
		"--older: -1s":         {"prune", "--older=-1s"},
		"containerd at " + filepath.Join(dir, "none"):                         {"import", archive, "--containerd", filepath.Join(dir, "none")},
		"containerd at " + filepath.Join(dir, "containerd/s/containerd.sock"): {"list", "--containerd", "own"},
		"--image-registries": {"prune", "--image-registries", "a b?trusted"},
	} {
		code, out, errs := s.assay(t.Context(), "", append([]string{"image"}, args...)...)
		if code != exitOurs || !strings.Contains(errs, says) {
			t.Errorf("%q: exit %d, %s%s; want %s", args, code, out, errs, says)
		}
	}
}
