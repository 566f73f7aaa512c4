package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// caseSize is the size of each referenced case, in bytes.
const caseSize = 64 << 20

// Referenced cases are streamed to the worker, once for all submissions, and no process holds them
// in memory.
func TestCasesByReference(t *testing.T) {
	f := start(t, "ASSAY_TOKENS=key-a=a,key-b=b")
	var err error
	if f.api, err = client.New(f.URL(), client.WithToken("key-a")); err != nil {
		t.Fatal(err)
	}
	f.run(t, graded("def f(x): return x * 2\nif __name__ == '__main__': print(f(int(input())))"), job.Succeeded) // warm-up
	pids := map[string]int{"worker": f.process(t, "worker"), "dispatcher": f.process(t, "dispatcher")}
	idle := map[string]int{}
	for name, pid := range pids {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil { // resets the peak
			t.Fatal(err)
		}
		idle[name] = memory(t, pid, "VmRSS")
	}
	tests := job.Tests{}
	var digests []string
	for i := range 4 {
		digest, sum := f.upload(t, uint64(i))
		digests = append(digests, digest)
		s := job.Stdio{Name: strconv.Itoa(i), StdinBlob: digest, Wall: job.Duration(time.Minute)}
		if s.Stdout = sum; i%2 == 1 { // the whole input comes back
			s.Stdout, s.StdoutBlob, s.Compare = "", digest, job.CompareExact
		}
		tests.Stdio = append(tests.Stdio, s)
	}
	const both = "import hashlib, sys\nfirst, h = sys.stdin.buffer.read(1), hashlib.sha256()\nback = first == b'1' or first == b'3'\nh.update(first)\n" +
		"if back: sys.stdout.buffer.write(first)\nwhile part := sys.stdin.buffer.read(1 << 16):\n    h.update(part)\n    if back: sys.stdout.buffer.write(part)\nif not back: print(h.hexdigest())"
	var fetched map[string]time.Time
	for _, code := range []string{both, both + "\n# again", "import sys\nsys.stdout.write('x' * 1000)"} {
		want, passed := job.Succeeded, 4
		if !strings.HasPrefix(code, both) {
			want, passed = job.Failed, 0
		}
		began := time.Now()
		r := judged(t, f, "", code, tests)
		if r.Outcome != want || r.Tests == nil || r.Tests.Passed != passed {
			t.Fatalf("%s: %s, %+v", r.Outcome, r.Message, r.Tests)
		}
		has := f.inputs(t)
		if len(has) != 4 {
			t.Errorf("%d blobs are kept, of 4", len(has))
		}
		if fetched != nil && fmt.Sprint(has) != fmt.Sprint(fetched) {
			t.Errorf("blobs were fetched again: %v, before %v", has, fetched)
		}
		fetched = has
		t.Logf("4 cases of 64 MiB took %v", time.Since(began).Round(time.Millisecond))
	}
	for name, pid := range pids {
		peak := memory(t, pid, "VmHWM")
		t.Logf("%s: %d MB before, %d MB at most", name, idle[name], peak)
		if peak-idle[name] > 96 {
			t.Errorf("the %s has %d MB more at most than before", name, peak-idle[name])
		}
	}
	f.blobsThatAreNotThere(t, tests, digests[0])
}

// blobsThatAreNotThere checks that a missing blob is an error that names it.
func (f *fleet) blobsThatAreNotThere(t *testing.T, tests job.Tests, there string) {
	t.Helper()
	named := func(digest string) job.Spec {
		one := tests
		one.Code, one.Stdio = "print(1)", []job.Stdio{{Stdout: "1"}, {StdinBlob: digest, Stdout: "1"}}
		return job.Spec{Program: job.Program{Tests: &one}}
	}
	other, err := client.New(f.URL(), client.WithToken("key-b"))
	if err != nil {
		t.Fatal(err)
	}
	missing := "sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		api    *client.Client
		digest string
	}{"missing": {f.api, missing}, "of another tenant": {other, there}} {
		_, err := c.api.Submit(t.Context(), named(c.digest))
		if !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "program.tests.stdio[1].stdin_blob") || !strings.Contains(err.Error(), "upload it") {
			t.Errorf("%s: %v", name, err)
		}
	}
	digest, _ := f.upload(t, 99)
	if removed := f.remove(t, digest); removed != 1 {
		t.Fatalf("%d objects were removed", removed)
	}
	r, err := f.api.Run(t.Context(), named(digest))
	switch {
	case errors.Is(err, job.ErrInvalid): // its digest was not cached
	case err != nil:
		t.Error(err)
	case r.Outcome != job.SetupError || !strings.Contains(r.Message, digest+" does not exist") || r.Tests != nil:
		t.Errorf("removed: %s: %s, %+v", r.Outcome, r.Message, r.Tests)
	}
}

// upload makes a case of printable bytes, which begins with its number, and returns its digest and
// sum.
func (f *fleet) upload(t *testing.T, n uint64) (digest, sum string) {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "case-")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var seed [32]byte
	seed[0] = byte(n)
	source, h, part := rand.NewChaCha8(seed), sha256.New(), make([]byte, 1<<20)
	for i := range caseSize / len(part) {
		_, _ = source.Read(part)
		for j, b := range part {
			part[j] = "0123456789abcdef"[b&15]
		}
		if i == 0 {
			part[0] = '0' + byte(n%10)
		}
		if _, err := io.MultiWriter(file, h).Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if digest, err = f.api.PutBlob(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	return digest, fmt.Sprintf("%x\n", h.Sum(nil))
}

// inputs returns the blobs that the worker keeps, and when it fetched them.
func (f *fleet) inputs(t *testing.T) map[string]time.Time {
	t.Helper()
	kept := map[string]time.Time{}
	dirs, err := filepath.Glob(filepath.Join(filepath.Dir(f.log), "*", "run", "inputs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	more, _ := filepath.Glob(filepath.Join(filepath.Dir(f.log), "*", "*", "run", "inputs", "*"))
	for _, name := range append(dirs, more...) {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		kept[filepath.Base(name)] = st.ModTime()
	}
	return kept
}

// remove removes a blob from the fleet's object store, from outside.
func (f *fleet) remove(t *testing.T, digest string) (n int) {
	t.Helper()
	sum := strings.TrimPrefix(digest, "sha256:")
	err := filepath.WalkDir(filepath.Join(filepath.Dir(f.log), "objects"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(name, sum) || strings.HasSuffix(name, ".attrs") {
			return err
		}
		n++
		return os.Remove(name)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// assay runs the command line against the fleet and returns its output.
func (f *fleet) assay(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, bad bytes.Buffer
	cmd := f.command(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &bad
	err = cmd.Run()
	return out.String(), bad.String(), err
}

// decoded returns the tests that a command printed.
func decoded(t *testing.T, text string) job.Tests {
	t.Helper()
	var tests job.Tests
	if err := json.Unmarshal([]byte(text), &tests); err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
	return tests
}
