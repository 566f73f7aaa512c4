package transfer_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/transfer"
	"github.com/assay-run/assay/pkg/job"
)

const id = job.ID("01a22064-5c00-7000-a5f5-b86097969409")

// file returns a file with three rows.
func file(t testing.TB) string {
	t.Helper()
	var out bytes.Buffer
	w, err := transfer.NewWriter(&out, transfer.Header{ID: id, Tenant: "t", Fleet: "f", Schema: 41, At: time.Unix(1, 0).UTC()})
	for _, row := range [][2]string{{"tenants", `{"weight":1}`}, {"jobs", `{"id":"a"}`}, {"jobs", `{"id":"b","text":"\u0000\n"}`}} {
		err = errors.Join(err, w.Row(row[0], []byte(row[1])))
	}
	if err = errors.Join(err, w.End()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestFile(t *testing.T) {
	t.Parallel()
	text := file(t)
	h, rows, err := transfer.Verify(strings.NewReader(text))
	if err != nil || h.ID != id || h.Tenant != "t" || h.Schema != 41 || rows["jobs"] != 2 || rows["tenants"] != 1 {
		t.Errorf("%+v, %v, %v", h, rows, err)
	}
	if _, _, err := transfer.Verify(strings.NewReader(strings.TrimSuffix(text, "\n"))); err != nil {
		t.Errorf("without the last line break: %v", err)
	}
	for n := range len(text) - 1 {
		if _, _, err := transfer.Verify(strings.NewReader(text[:n])); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("cut at %d of %d: %v", n, len(text), err)
		}
	}
	lines := strings.SplitAfter(text, "\n")
	for what, bad := range map[string]string{
		"a row less":     lines[0] + lines[1] + lines[3] + lines[4],
		"a row twice":    lines[0] + lines[1] + lines[2] + lines[2] + lines[3] + lines[4],
		"another order":  lines[0] + lines[2] + lines[1] + lines[3] + lines[4],
		"another tenant": strings.Replace(text, `"tenant":"t"`, `"tenant":"u"`, 1),
		"another format": strings.Replace(text, `"assay_tenant":1`, `"assay_tenant":2`, 1),
		"no id":          strings.Replace(text, string(id), "none", 1),
		"more":           text + "\n",
		"two files":      text + text,
		"no header":      lines[1] + lines[4],
		"other JSON":     `{"jobs":[]}` + "\n",
	} {
		if _, _, err := transfer.Verify(strings.NewReader(bad)); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestFailedExport(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w, err := transfer.NewWriter(&out, transfer.Header{ID: id})
	if err = errors.Join(err, w.Row("jobs", []byte(`{}`)), w.Fail(errors.New("the \"reason\"\n"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := transfer.Verify(&out); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), `the "reason"`) {
		t.Errorf("got %v", err)
	}
}

// TestBrokenReader: an error of the reader below is not taken for a cut file.
func TestBrokenReader(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if _, _, err := transfer.Verify(io.MultiReader(strings.NewReader(file(t)[:200]), errReader{broken})); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type errReader struct{ error }

func (r errReader) Read([]byte) (int, error) { return 0, r.error }

// FuzzVerify: no input makes the reader panic, and an accepted one is whole.
func FuzzVerify(f *testing.F) {
	text := file(f)
	f.Add([]byte(text))
	f.Add([]byte(text[:len(text)/2]))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, rows, err := transfer.Verify(bytes.NewReader(raw)); err == nil && rows == nil {
			t.Error("a file without numbers was accepted")
		}
	})
}
