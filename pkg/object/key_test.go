package object

import (
	"errors"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
)

const anID = job.ID("01932c07-8f6a-7c3e-9d2b-5a1f0e4c7b88")

func TestArtifactKey(t *testing.T) {
	prefix := "acme/" + string(anID) + "/7/"
	long := strings.Repeat("é", 120)
	for _, c := range []struct{ name, want string }{
		{"/workspace/out/a.png", "workspace/out/a.png"},
		{"/workspace/a b%c", "workspace/a%20b%25c"},
		{"/workspace/...", "workspace/%2E%2E%2E"},
		{"/workspace/..a", "workspace/..a"},
		{"/workspace/x.attrs", "workspace/x%2Eattrs"},
		{"/workspace/x.1a.tmp", "workspace/x.1a%2Etmp"},
		{"/workspace/\xff\n", "workspace/%FF%0A"},
		{"/workspace/" + long, "workspace/" + strings.Repeat("%C3%A9", 17)[:100] + "~" + digest(long)},
	} {
		got, err := ArtifactKey("acme", anID, 7, c.name)
		if err != nil || got != prefix+c.want {
			t.Errorf("ArtifactKey(%q) = %q, %v, want …%q", c.name, got, err, c.want)
		}
	}
	deep := strings.Repeat("/"+strings.Repeat("d", 100), 20)
	if got, err := ArtifactKey("acme", anID, 7, deep); err != nil || got != prefix+"~"+digest(deep) {
		t.Errorf("a very deep path: %q, %v", got, err)
	}
}

func TestArtifactKeyRefuses(t *testing.T) {
	for _, name := range []string{"", "/", "relative", "/a/../../b", "/..", "/a//b", "/a/", "/a/.", "/nul\x00byte"} {
		if got, err := ArtifactKey("acme", anID, 1, name); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("ArtifactKey(%q) = %q, %v, want ErrInvalid", name, got, err)
		}
	}
	if _, err := AttemptPrefix("", anID, 1); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("empty tenant: %v", err)
	}
	if _, err := AttemptPrefix("acme", "../x", 1); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("bad id: %v", err)
	}
	if _, err := AttemptPrefix("acme", anID, 0); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("no lease: %v", err)
	}
}

// TestArtifactKeyProperties checks that a key stays under its attempt's prefix, is valid for a store, and is
// unique, for any names of tenant and file.
func TestArtifactKeyProperties(t *testing.T) {
	segment := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"..", ".", "a.attrs", "b.tmp", "%2E", "~", "a~b", strings.Repeat("z", 300)}))
	rapid.Check(t, func(t *rapid.T) {
		name := func(label string) string {
			parts := rapid.SliceOfN(segment, 1, 6).Draw(t, label)
			return path.Clean("/" + strings.Join(parts, "/"))
		}
		a, b, tenant := name("a"), name("b"), segment.Draw(t, "tenant")
		ka, err := ArtifactKey(tenant, anID, 3, a)
		if err != nil {
			if tenant != "" && a != "/" && !strings.Contains(a, "\x00") {
				t.Fatalf("%q refused: %v", a, err)
			}
			return
		}
		prefix, _ := AttemptPrefix(tenant, anID, 3)
		if !strings.HasPrefix(ka, prefix) || path.Clean(ka) != ka || strings.Count(prefix, "/") != 3 {
			t.Fatalf("%q leads to %q, outside %q", a, ka, prefix)
		}
		if err := checkKey(ka); err != nil {
			t.Fatalf("%q → %q: %v", a, ka, err)
		}
		if strings.HasSuffix(ka, tempSuffix) || strings.HasSuffix(ka, ".attrs") {
			t.Fatalf("%q → %q is a name the file store keeps for itself", a, ka)
		}
		if kb, err := ArtifactKey(tenant, anID, 3, b); err == nil && a != b && ka == kb {
			t.Fatalf("%q and %q share %q", a, b, ka)
		}
	})
}

func TestCheckKeyRefuses(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for _, key := range []string{"", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "a/./b", "a\x00b", "a\nb", `a\b`, strings.Repeat("k", 2000)} {
			if _, err := s.Put(t.Context(), key, strings.NewReader("x")); !errors.Is(err, job.ErrInvalid) {
				t.Errorf("Put(%q): %v, want ErrInvalid", key, err)
			}
			if _, _, err := s.Get(t.Context(), key); !errors.Is(err, job.ErrInvalid) {
				t.Errorf("Get(%q): %v, want ErrInvalid", key, err)
			}
			if err := s.Delete(t.Context(), key); !errors.Is(err, job.ErrInvalid) {
				t.Errorf("Delete(%q): %v, want ErrInvalid", key, err)
			}
		}
	})
}

// The longest names still fit the file system with its temporary suffix.
func TestLongestNamesFitOnDisk(t *testing.T) {
	s, err := Open(t.Context(), "file://"+filepath.Join(t.TempDir(), "o"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"/" + strings.Repeat("a", 255), strings.Repeat("/"+strings.Repeat("é", 127), 30)} {
		key, err := ArtifactKey(strings.Repeat("t", 300), anID, 1<<62, name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), key, strings.NewReader("x")); err != nil {
			t.Errorf("%d byte key: %v", len(key), err)
		}
	}
}

// The owner of every artifact is read back from its key, and no other key has one.
func TestAttemptOf(t *testing.T) {
	key, err := ArtifactKey("a/../b", anID, 7, "/workspace/out/x")
	if err != nil {
		t.Fatal(err)
	}
	prefix, id, lease, ok := AttemptOf(key)
	if want, _ := AttemptPrefix("a/../b", anID, 7); !ok || prefix != want || id != anID || lease != 7 {
		t.Errorf("AttemptOf(%q) = %q, %s, %d, %v", key, prefix, id, lease, ok)
	}
	blob, err := BlobKey("acme", "sha256:"+strings.Repeat("0", 64))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "x", blob, "acme/" + string(anID) + "/7", "acme/" + string(anID) + "/0/x", "acme/" + string(anID) + "/07/x",
		"acme/" + string(anID) + "/-1/x", "acme/" + strings.ToUpper(string(anID)) + "/7/x", "acme/no/7/x"} {
		if _, _, _, ok := AttemptOf(key); ok {
			t.Errorf("AttemptOf(%q) found an owner", key)
		}
	}
}

// Outputs have keys of their own, which belong to their attempt and to no artifact.
func TestOutputKey(t *testing.T) {
	seen := map[string]bool{}
	for _, stream := range []string{"stdout", "stderr"} {
		for _, step := range []int{WholeOutput, 0, 1, job.MaxSteps - 1} {
			key, err := OutputKey("a/../b", anID, 7, stream, step)
			if err != nil || seen[key] || checkKey(key) != nil {
				t.Errorf("%s of %d: %q, %v", stream, step, key, err)
			}
			seen[key] = true
			if _, id, lease, ok := AttemptOf(key); !ok || id != anID || lease != 7 {
				t.Errorf("%q has no owner", key)
			}
		}
	}
	for _, name := range []string{"/~stdout", "/~stdout.0", "/%7Estdout"} {
		if key, err := ArtifactKey("a/../b", anID, 7, name); err != nil || seen[key] {
			t.Errorf("artifact %q has the key of an output: %q, %v", name, key, err)
		}
	}
	for _, c := range []struct {
		stream string
		step   int
	}{{"stdin", 0}, {"", WholeOutput}, {"../x", 0}, {"stdout", -2}, {"stdout", job.MaxSteps}} {
		if key, err := OutputKey("acme", anID, 7, c.stream, c.step); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%q of %d: %q, %v", c.stream, c.step, key, err)
		}
	}
}
