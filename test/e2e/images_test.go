package e2e

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
)

// tarball returns an archive of files, from alternating names and contents.
func tarball(t *testing.T, pairs ...string) string {
	t.Helper()
	var b bytes.Buffer
	a := tar.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		if err := a.WriteHeader(&tar.Header{Name: pairs[i], Size: int64(len(pairs[i+1])), Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		_, _ = a.Write([]byte(pairs[i+1]))
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func sumOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

func configOf(layer string) string {
	return fmt.Sprintf(`{"architecture":%q,"os":"linux","rootfs":{"type":"layers","diff_ids":[%q]}}`, runtime.GOARCH, sumOf(layer))
}

// oneImage serves a registry with one image of one layer, and counts its pulls.
func oneImage(t *testing.T, layer string) (url string, pulls *atomic.Int64) {
	t.Helper()
	pulls = &atomic.Int64{}
	config := configOf(layer)
	const kind = "application/vnd.oci.image."
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"%smanifest.v1+json","config":{"mediaType":"%sconfig.v1+json","digest":%q,"size":%d},"layers":[{"mediaType":"%slayer.v1.tar","digest":%q,"size":%d}]}`,
		kind, kind, sumOf(config), len(config), kind, sumOf(layer), len(layer))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := manifest
		switch {
		case strings.HasSuffix(r.URL.Path, sumOf(layer)):
			body = layer
			pulls.Add(1)
		case strings.HasSuffix(r.URL.Path, sumOf(config)):
			body = config
		default:
			w.Header().Set("Content-Type", kind+"manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", sumOf(manifest))
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		if r.Method != http.MethodHead {
			_, _ = w.Write([]byte(body))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, pulls
}

// TestImages lists the workers' images as an operator, imports the image of a job at once, and
// prunes a job's image, which the next job pulls again.
func TestImages(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(filepath.Join(testenv.Programs(t), "assay"))
	if err != nil {
		t.Fatal(err)
	}
	url, pulls := oneImage(t, tarball(t, "assay", string(program)))
	f := start(t, "ASSAY_IMAGE_REGISTRIES="+url)
	dir := filepath.Dir(f.log)
	socket, err := dev.ContainerdAddress(filepath.Join(dir, "containerd"))
	if err != nil {
		t.Fatal(err)
	}
	assay := func(want int, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(f.bin, "assay"), append([]string{"--url", f.URL()}, args...)...)
		cmd.Env = append(os.Environ(), "ASSAY_CONTAINERD_ADDRESS="+socket)
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != want {
			t.Errorf("assay %q: %v, want exit %d:\n%s", args, err, want, out)
		}
		return string(out)
	}
	runs := func(image string) string {
		t.Helper()
		s := spec(t, job.Program{Command: &job.Command{Argv: []string{"/assay", "version"}}}, "task", nil, "")
		s.Image = image
		r, err := f.api.Run(t.Context(), s)
		if err != nil || r.Outcome != job.Succeeded || !strings.HasPrefix(r.Stdout.Text, "assay") {
			t.Fatalf("a job in %s: %+v, %v", image, r, err)
		}
		return r.ImageDigest
	}
	lists := func(image, digest, whose string) bool {
		for line := range strings.Lines(assay(0, "image", "list")) {
			if w := strings.Fields(line); len(w) == 5 && w[0] == image {
				return strings.HasPrefix(digest, "sha256:"+w[1]) && w[3] == whose && w[4] == "1" && w[2] != "?"
			}
		}
		return false
	}
	ref := strings.TrimPrefix(url, "http://") + "/a/b:1"
	digest := runs(ref)
	eventually(t, "the pulled image is listed", func() bool { return lists(ref, digest, "pulled") })

	archive := filepath.Join(dir, "own.tar")
	layer := tarball(t, "assay", string(program), "own", "1")
	write := func(text string) {
		if err := os.WriteFile(archive, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("this is no archive")
	if said := assay(125, "image", "import", archive); !strings.Contains(said, "import "+archive+": it is not an image archive") {
		t.Errorf("a text was imported: %s", said)
	}
	write(tarball(t, "c.json", configOf(layer), "l.tar", layer, "manifest.json", `[{"Config":"c.json","RepoTags":["assay.local/own:1"],"Layers":["l.tar"]}]`))
	said := assay(0, "image", "import", archive)
	if own := runs("own:1"); said != "imported assay.local/own:1 "+own+"\n" {
		t.Errorf("imported, and ran as %s: %s", own, said)
	} else {
		eventually(t, "the imported image is listed", func() bool { return lists("assay.local/own:1", own, "operator") })
	}

	if said := assay(0, "image", "prune", "--older", "1h"); !strings.HasPrefix(said, "removed 0 images") {
		t.Errorf("pruned what is younger than an hour: %s", said)
	}
	if said := assay(0, "image", "prune", "--dry-run"); !strings.Contains(said, "would remove "+ref) || strings.Contains(said, "own:1") {
		t.Errorf("a dry run: %s", said)
	}
	var gone []struct {
		Name  string
		Bytes int64
	}
	if said := assay(0, "image", "prune", "--json"); json.Unmarshal([]byte(said), &gone) != nil || len(gone) != 1 || gone[0].Name != ref || gone[0].Bytes < int64(len(program)) {
		t.Errorf("pruned: %s", said)
	}
	eventually(t, "the pruned image is not listed", func() bool { return !strings.Contains(assay(0, "image", "list"), ref) })
	if before := pulls.Load(); runs(ref) != digest || before < 1 {
		t.Errorf("pulled again: %d times, before %d", pulls.Load(), before)
	}
	if said := assay(0, "image", "list", "--containerd", "own", "--state-dir", dir); !strings.Contains(said, "assay.local/own:1 ") || !strings.Contains(said, ref) || strings.Contains(said, "WORKERS") {
		t.Errorf("the host's: %s", said)
	}
	if said := assay(125, "image", "prune", "--containerd", "/no/such.sock"); !strings.Contains(said, "/no/such.sock") {
		t.Errorf("no containerd: %s", said)
	}
}
