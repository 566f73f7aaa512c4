package object

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

var (
	envName   = strings.Repeat("ab", 32)
	envDigest = "sha256:" + strings.Repeat("0f", 32)
)

func TestEnvironmentKeys(t *testing.T) {
	t.Parallel()
	key, err := EnvironmentKey(envName, envDigest)
	if want := "environments/ab/" + envName + "/" + envDigest[7:]; err != nil || key != want {
		t.Errorf("%q, %v; want %q", key, err, want)
	}
	if !IsEnvironment(key) || checkKey(key) != nil {
		t.Errorf("%q is no key of an environment", key)
	}
	if prefix, _, _, ok := AttemptOf(key); ok {
		t.Errorf("it is taken for the attempt %q", prefix)
	}
	for _, other := range []string{"", key + "/x", key[:len(key)-1], strings.Replace(key, "/ab/", "/ac/", 1), "environments/" + string(job.NewID()) + "/1/out"} {
		if IsEnvironment(other) {
			t.Errorf("%q is taken for the key of an environment", other)
		}
	}
	for _, bad := range [][2]string{{"", envDigest}, {envName[2:], envDigest}, {"../" + envName[3:], envDigest}, {strings.ToUpper(envName), envDigest}, {envName, envDigest[7:]}, {envName, ""}, {envName, "sha256:../" + envDigest[10:]}} {
		if key, err := EnvironmentKey(bad[0], bad[1]); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%q: %q, %v", bad, key, err)
		}
	}
}

// TestEnvironmentsAreStored checks that an existing object is renewed instead of written again, and that an
// incomplete write leaves no object.
func TestEnvironmentsAreStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(text string, replace bool) error {
		return s.PutEnvironment(t.Context(), envName, envDigest, replace, func(w io.Writer) error {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
			if text == "bad" {
				return errors.New("the disk is bad")
			}
			return nil
		})
	}
	get := func() string {
		t.Helper()
		r, err := s.GetEnvironment(t.Context(), envName, envDigest)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if _, err := s.GetEnvironment(t.Context(), envName, envDigest); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("before it is there: %v", err)
	}
	if err := put("bad", false); err == nil || !strings.Contains(err.Error(), "the disk is bad") {
		t.Errorf("a write that failed: %v", err)
	}
	if _, err := s.GetEnvironment(t.Context(), envName, envDigest); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("half of it is there: %v", err)
	}
	if err := put("first", false); err != nil || get() != "first" {
		t.Errorf("%q, %v", get(), err)
	}
	key, _ := EnvironmentKey(envName, envDigest)
	then := time.Now().Add(-48 * time.Hour)
	aged := func() bool {
		info, err := s.Stat(t.Context(), key)
		return err == nil && time.Since(info.Modified) > 24*time.Hour
	}
	for name, use := range map[string]func(){"fetched": func() { get() }, "offered": func() { _ = put("again", false) }} {
		if err := os.Chtimes(filepath.Join(dir, key), then, then); err != nil {
			t.Fatal(err)
		}
		if !aged() {
			t.Fatal("it did not age")
		}
		if use(); aged() || get() != "first" {
			t.Errorf("%s: old %v, holds %q", name, aged(), get())
		}
	}
	if err := put("second", true); err != nil || get() != "second" {
		t.Errorf("replaced: %q, %v", get(), err)
	}
}
