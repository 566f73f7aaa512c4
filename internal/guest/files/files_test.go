package files

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// does runs an operation that must succeed and returns its output.
func does(t *testing.T, r Request, in string) string {
	t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := Main(string(raw), strings.NewReader(in), &out, &errs); code != 0 {
		t.Fatalf("%+v: exit code %d, %s", r, code, errs.String())
	}
	return out.String()
}

// fails runs an operation that must fail and returns the reason.
func fails(t *testing.T, r Request, in string) Failure {
	t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := Main(string(raw), strings.NewReader(in), &out, &errs); code != 1 {
		t.Fatalf("%+v: exit code %d, %s", r, code, out.String())
	}
	var f Failure
	if err := json.Unmarshal(errs.Bytes(), &f); err != nil || f.Message == "" {
		t.Fatalf("%+v: %q, %v", r, errs.String(), err)
	}
	return f
}

func entry(t *testing.T, text string) (e Entry) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestWriteAndRead(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/a/b/file"
	e := entry(t, does(t, Request{Op: Write, Path: path}, "hello"))
	if e.Path != path || e.Name != "file" || e.Type != "file" || e.Size != 5 || e.Mode != 0o644 || time.Since(e.Modified) > time.Minute {
		t.Errorf("%+v", e)
	}
	for _, x := range []struct {
		offset, length int64
		want           string
	}{{0, 0, "hello"}, {1, 3, "ell"}, {4, 100, "o"}, {100, 0, ""}} {
		if got := does(t, Request{Op: Read, Path: path, Offset: x.offset, Length: x.length}, ""); got != x.want {
			t.Errorf("from %d, %d bytes: %q; want %q", x.offset, x.length, got, x.want)
		}
	}
	if e := entry(t, does(t, Request{Op: Write, Path: path, Mode: 0o750}, "")); e.Mode != 0o750 || e.Size != 0 {
		t.Errorf("with a mode: %+v", e)
	}
	if e := entry(t, does(t, Request{Op: Append, Path: path}, "more")); e.Mode != 0o750 || e.Size != 4 {
		t.Errorf("appended: %+v", e)
	}
	if e := entry(t, does(t, Request{Op: Write, Path: path}, "x")); e.Mode != 0o750 {
		t.Errorf("replaced without a mode: %+v", e)
	}
	if left, _ := filepath.Glob(dir + "/a/b/.assay-*"); left != nil {
		t.Errorf("left: %v", left)
	}
}

// A link keeps its place: the file behind it is replaced.
func TestWriteThroughALink(t *testing.T) {
	dir := t.TempDir()
	does(t, Request{Op: Write, Path: dir + "/real"}, "old")
	if err := os.Symlink("real", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	does(t, Request{Op: Write, Path: dir + "/link"}, "new")
	if got := does(t, Request{Op: Read, Path: dir + "/real"}, ""); got != "new" {
		t.Errorf("%q", got)
	}
	if e := entry(t, does(t, Request{Op: Stat, Path: dir + "/link"}, "")); e.Type != "link" || e.Target != "real" {
		t.Errorf("%+v", e)
	}
}

// Readers of a file see one version or the other while it is replaced.
func TestWriteAtOnce(t *testing.T) {
	path := t.TempDir() + "/file"
	versions := []string{strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<20)}
	does(t, Request{Op: Write, Path: path}, versions[0])
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 20 {
			var r = Request{Op: Write, Path: path}
			if err := Run(r, strings.NewReader(versions[i%2]), &bytes.Buffer{}); err != nil {
				t.Error(err)
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if got := does(t, Request{Op: Read, Path: path}, ""); got != versions[0] && got != versions[1] {
			t.Fatalf("a mixture of %d bytes", len(got))
		}
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/b/c/file", "a/file", "z"} {
		does(t, Request{Op: Write, Path: dir + "/" + name}, "")
	}
	if err := os.Symlink("/", dir+"/loop"); err != nil {
		t.Fatal(err)
	}
	names := func(r Request) (names string, more bool) {
		var found Entries
		r.Op, r.Path = List, dir
		if err := json.Unmarshal([]byte(does(t, r, "")), &found); err != nil {
			t.Fatal(err)
		}
		for _, e := range found.Entries {
			names += strings.TrimPrefix(e.Path, dir+"/") + " "
		}
		return names, found.More
	}
	for _, x := range []struct {
		depth, limit int
		want         string
		more         bool
	}{
		{0, 0, "a loop z ", false},
		{1, 0, "a loop z ", false},
		{2, 0, "a a/b a/file loop z ", false},
		{9, 0, "a a/b a/b/c a/b/c/file a/file loop z ", false},
		{9, 2, "a a/b ", true},
		{1, 3, "a loop z ", false},
	} {
		if got, more := names(Request{Depth: x.depth, Limit: x.limit}); got != x.want || more != x.more {
			t.Errorf("depth %d, limit %d: %q, %v; want %q, %v", x.depth, x.limit, got, more, x.want, x.more)
		}
	}
}

func TestMoveAndRemove(t *testing.T) {
	dir := t.TempDir()
	does(t, Request{Op: Write, Path: dir + "/a"}, "text")
	if e := entry(t, does(t, Request{Op: Move, Path: dir + "/a", To: dir + "/new/b"}, "")); e.Path != dir+"/new/b" {
		t.Errorf("%+v", e)
	}
	if e := entry(t, does(t, Request{Op: MakeDir, Path: dir + "/x/y"}, "")); e.Type != "directory" || e.Mode != 0o755 {
		t.Errorf("%+v", e)
	}
	does(t, Request{Op: MakeDir, Path: dir + "/x/y"}, "") // again
	does(t, Request{Op: Remove, Path: dir + "/new"}, "")
	if f := fails(t, Request{Op: Stat, Path: dir + "/new/b"}, ""); f.Reason != "not_found" {
		t.Errorf("%+v", f)
	}
}

func TestFailures(t *testing.T) {
	dir := t.TempDir()
	does(t, Request{Op: Write, Path: dir + "/file"}, "")
	does(t, Request{Op: Write, Path: dir + "/full/file"}, "")
	for _, x := range []struct {
		r      Request
		reason string
	}{
		{Request{Op: "dance", Path: "/"}, "invalid"},
		{Request{Op: Read}, "invalid"},
		{Request{Op: Read, Path: dir}, "is_directory"},
		{Request{Op: Read, Path: dir + "/missing"}, "not_found"},
		{Request{Op: Read, Path: dir + "/file", Offset: -1}, "invalid"},
		{Request{Op: Read, Path: dir + "/" + strings.Repeat("x", 300)}, "invalid"},
		{Request{Op: Write, Path: dir}, "is_directory"},
		{Request{Op: Write, Path: dir + "/file/below"}, "not_directory"},
		{Request{Op: List, Path: dir + "/file"}, "not_directory"},
		{Request{Op: List, Path: dir + "/missing"}, "not_found"},
		{Request{Op: MakeDir, Path: dir + "/file"}, "not_directory"},
		{Request{Op: Remove, Path: dir + "/missing"}, "not_found"},
		{Request{Op: Move, Path: dir + "/missing", To: dir + "/b"}, "not_found"},
		{Request{Op: Move, Path: dir + "/file"}, "invalid"},
		{Request{Op: Move, Path: dir + "/file", To: dir + "/full"}, "exists"},
		{Request{Op: Unpack, Path: dir + "/out"}, "invalid"},
		{Request{Op: Write, Path: "/proc/version"}, "failed"},
	} {
		if f := fails(t, x.r, "no archive, but longer than one block: "+strings.Repeat("x", 600)); f.Reason != x.reason {
			t.Errorf("%+v: %+v; want %s", x.r, f, x.reason)
		}
	}
	if code := Main("{", strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}); code != 1 {
		t.Errorf("no request: exit code %d", code)
	}
}

func TestArchives(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	old := time.Unix(1_500_000_000, 0)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.MkdirAll(from+"/d/e", 0o755))
	check(os.WriteFile(from+"/d/run", []byte("#!/bin/sh\n"), 0o755))
	check(os.WriteFile(from+"/d/e/"+strings.Repeat("long", 50), bytes.Repeat([]byte("x"), 1<<20), 0o600))
	check(os.Symlink("../nowhere", from+"/d/link"))
	check(syscall.Mkfifo(from+"/d/pipe", 0o644))
	check(os.Chtimes(from+"/d/run", old, old))
	check(os.Chmod(from+"/d/e", 0o555))
	check(os.Chtimes(from+"/d/e", old, old))
	archive := does(t, Request{Op: Pack, Path: from}, "")
	does(t, Request{Op: Unpack, Path: to}, archive)
	does(t, Request{Op: Unpack, Path: to}, archive) // over itself
	var saw, want []Entry
	for dir, into := range map[string]*[]Entry{from: &want, to: &saw} {
		check(filepath.WalkDir(dir+"/d", func(path string, d fs.DirEntry, err error) error {
			check(err)
			info, err := d.Info()
			check(err)
			e := entryOf(path, info)
			e.Path = strings.TrimPrefix(path, dir)
			if e.Type != "file" && e.Name != "e" {
				e.Modified = time.Time{}
			}
			*into = append(*into, e)
			return nil
		}))
	}
	if len(want) != 6 || len(saw) != len(want) {
		t.Fatalf("%+v\n%+v", saw, want)
	}
	for i := range want {
		if saw[i] != want[i] {
			t.Errorf("%+v; want %+v", saw[i], want[i])
		}
	}
	// A single file.
	does(t, Request{Op: Unpack, Path: to + "/one"}, does(t, Request{Op: Pack, Path: from + "/d/run"}, ""))
	if got := does(t, Request{Op: Read, Path: to + "/one/run"}, ""); got != "#!/bin/sh\n" {
		t.Errorf("%q", got)
	}
}

// No archive writes outside of its directory.
func TestHostileArchives(t *testing.T) {
	for name, entries := range map[string][]tar.Header{
		"dots":           {{Name: "../out", Typeflag: tar.TypeReg}},
		"through a link": {{Name: "link", Linkname: "..", Typeflag: tar.TypeSymlink}, {Name: "link/out", Typeflag: tar.TypeReg}},
		"a hard link":    {{Name: "x", Linkname: "../secret", Typeflag: tar.TypeLink}},
		"a device":       {{Name: "x", Typeflag: tar.TypeChar}},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/secret", []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range entries {
			h.Mode = 0o644
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		_ = w.Close()
		fails(t, Request{Op: Unpack, Path: dir + "/in"}, b.String())
		if _, err := os.Lstat(dir + "/out"); err == nil {
			t.Errorf("%s: written outside", name)
		}
	}
	// An absolute name is one below the directory, and a link is replaced, not followed.
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/in", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/out", dir+"/in/file"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Name: "/etc/x", Typeflag: tar.TypeReg, Mode: 0o644}, {Name: "file", Typeflag: tar.TypeReg, Mode: 0o644}} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Close()
	does(t, Request{Op: Unpack, Path: dir + "/in"}, b.String())
	if _, err := os.Lstat(dir + "/out"); err == nil {
		t.Error("a link was followed")
	}
	if e := entry(t, does(t, Request{Op: Stat, Path: dir + "/in/etc/x"}, "")); e.Type != "file" {
		t.Errorf("%+v", e)
	}
}
