package environment

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTakeWheels(t *testing.T) {
	t.Parallel()
	good := zipOf(t, "assay_good/__init__.py", "", "assay_good-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: assay_good\nVersion: 1.0\n")
	const file = "assay_good-1.0-py3-none-any.whl"
	for name, c := range map[string]struct {
		files map[string][]byte
		most  int64
		bad   string
	}{
		"nothing":             {map[string][]byte{}, 1 << 20, ""},
		"a wheel":             {map[string][]byte{file: good}, 1 << 20, ""},
		"a build tag":         {map[string][]byte{"assay_good-1.0-1-py3-none-any.whl": good}, 1 << 20, ""},
		"another spelling":    {map[string][]byte{"Assay.Good-1.0-py3-none-any.whl": good}, 1 << 20, ""},
		"another name":        {map[string][]byte{"assay_other-1.0-py3-none-any.whl": good}, 1 << 20, "declares the name and version assay_good"},
		"a source package":    {map[string][]byte{"assay_good-1.0.tar.gz": good}, 1 << 20, "not the name of a wheel"},
		"an option":           {map[string][]byte{"--pre.whl": good}, 1 << 20, "not the name of a wheel"},
		"a name of two lines": {map[string][]byte{"a-1.0-py3\n-none-any.whl": good}, 1 << 20, "not the name of a wheel"},
		"too large":           {map[string][]byte{file: good}, int64(len(good)) - 1, "larger than"},
		"too large together":  {map[string][]byte{file: good, "assay_good-1.0-1-py3-none-any.whl": good}, int64(len(good)) + 1, "larger than"},
		"no zip":              {map[string][]byte{file: []byte("PK")}, 1 << 20, "not a wheel"},
		"half a wheel":        {map[string][]byte{file: good[:len(good)/2]}, 1 << 20, "not a wheel"},
		"no metadata":         {map[string][]byte{file: zipOf(t, "assay_good/x", "")}, 1 << 20, "no metadata"},
		"two metadata":        {map[string][]byte{file: zipOf(t, "a.dist-info/METADATA", "Name: a\n", "b.dist-info/METADATA", "Name: b\n")}, 1 << 20, "twice"},
		"no version":          {map[string][]byte{file: zipOf(t, "a.dist-info/METADATA", "Name: assay_good\n\nVersion: 1\n")}, 1 << 20, "no plain name"},
		"a version to inject": {map[string][]byte{file: zipOf(t, "a.dist-info/METADATA", "Name: assay_good\nVersion: 1 --hash=sha256:0\n")}, 1 << 20, "no plain name"},
		"a name to inject":    {map[string][]byte{file: zipOf(t, "a.dist-info/METADATA", "Name: assay_good @ file:///etc\nVersion: 1\n")}, 1 << 20, "no plain name"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, body := range c.files {
				if err := os.MkdirAll(filepath.Join(dir, "wheels"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "wheels", file), body, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := take(t, dir, c.most)
			switch {
			case c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)):
				t.Errorf("got %v, want %s", err, c.bad)
			case c.bad == "" && (err != nil || len(got) != len(c.files)):
				t.Errorf("got %d, %v", len(got), err)
			}
		})
	}
	for name, make := range map[string]func(string) error{
		"a link":      func(f string) error { return os.Symlink("/etc/passwd", f) },
		"a pipe":      func(f string) error { return unix.Mkfifo(f, 0o666) },
		"a directory": func(f string) error { return os.Mkdir(f, 0o755) },
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "wheels"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := make(filepath.Join(dir, "wheels", file)); err != nil {
			t.Fatal(err)
		}
		if _, err := take(t, dir, 1<<20); err == nil || !strings.Contains(err.Error(), "not a file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func take(t *testing.T, dir string, most int64) ([]wheelFile, error) {
	t.Helper()
	work, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer work.Close()
	return takeWheels(work, "wheels", filepath.Join(t.TempDir(), "to"), most)
}

func zipOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, files[i+1])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A wheel with a list of files that would take gigabytes to read is not read.
func TestWheelsAreReadWithinBounds(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	name := strings.Repeat("x", 1000)
	for i := range zipDirectory/1000 + 1 {
		if _, err := z.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("%s%d", name, i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := wheelMetadata(bytes.NewReader(b.Bytes()), int64(b.Len())); err == nil || !strings.Contains(err.Error(), "list of files is too long") {
		t.Errorf("got %v", err)
	}
	// Metadata that unpack to a gigabyte are read as far as they are looked at.
	big := zipOf(t, "a.dist-info/METADATA", "Name: a\nVersion: 1\n\n"+strings.Repeat("x", 64<<20))
	if _, _, err := wheelMetadata(bytes.NewReader(big), int64(len(big))); err != nil {
		t.Errorf("a long description: %v", err)
	}
	long := zipOf(t, "a.dist-info/METADATA", strings.Repeat("x", 64<<20)+"\nName: a\nVersion: 1\n")
	if _, _, err := wheelMetadata(bytes.NewReader(long), int64(len(long))); err == nil {
		t.Error("a line of 64 MiB was read")
	}
}

func FuzzWheelMetadata(f *testing.F) {
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\x00", 18)))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, version, err := wheelMetadata(bytes.NewReader(data), int64(len(data)))
		if err == nil && (name == "" || version == "" || strings.ContainsAny(name+version, " \n@;")) {
			t.Errorf("%q %q", name, version)
		}
	})
}
