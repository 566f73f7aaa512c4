package capture

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
)

func TestOutput(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		limit job.Size
		write string
		want  job.Output
	}{
		{"empty", 10, "", job.Output{}},
		{"fits", 10, "0123456789", job.Output{Text: "0123456789", Bytes: 10}},
		{"cut", 10, "0123456789a", job.Output{Text: "01234\n… 1 bytes cut …\n6789a", Bytes: 11, Truncated: true}},
		{"odd limit", 3, "abcdef", job.Output{Text: "ab\n… 3 bytes cut …\nf", Bytes: 6, Truncated: true}},
		{"nothing kept", 0, "abc", job.Output{Text: "\n… 3 bytes cut …\n", Bytes: 3, Truncated: true}},
		{"not UTF-8", 10, "a\xffb", job.Output{Text: "a\uFFFDb", Bytes: 3, Binary: true, Base64: []byte("a\xffb")}},
		{"runes are not cut in two", 8, "ééééééé", job.Output{Text: "éé\n… 6 bytes cut …\néé", Bytes: 14, Truncated: true}},
		{"runes at an odd place", 8, "xéééééé", job.Output{Text: "xé\n… 6 bytes cut …\néé", Bytes: 13, Truncated: true}},
	} {
		b := New(tc.limit, nil)
		fmt.Fprint(b, tc.write)
		if d := cmp.Diff(tc.want, b.Output()); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
}

// However a stream is split into writes, the same bytes are kept.
func TestSplitDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := job.Size(rapid.IntRange(0, 40).Draw(t, "limit"))
		chunks := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 30)).Draw(t, "chunks")
		whole, split := New(limit, nil), New(limit, nil)
		_, _ = whole.Write(bytes.Join(chunks, nil))
		for _, c := range chunks {
			_, _ = split.Write(c)
		}
		if d := cmp.Diff(whole.Output(), split.Output()); d != "" {
			t.Fatal(d)
		}
		if !utf8.ValidString(split.Output().Text) {
			t.Fatalf("not UTF-8: %q", split.Output().Text)
		}
	})
}

func TestExceedIsCalledOnce(t *testing.T) {
	t.Parallel()
	calls := 0
	b := New(4, func() { calls++ })
	for _, s := range []string{"abcd", "e", "fffffffff", "g"} {
		fmt.Fprint(b, s)
		if want := min(1, strings.Count("efg", s[:1])); s == "abcd" && calls != 0 || s == "e" && calls != want {
			t.Errorf("after %q: %d calls", s, calls)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
}

// A gigabyte goes through without growing.
func TestDrainDoesNotGrow(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 30
	go func() {
		chunk := bytes.Repeat([]byte("x"), 1<<16)
		for range size / len(chunk) {
			_, _ = w.Write(chunk)
		}
		_ = w.Close()
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b := New(64*job.KiB, nil)
	if err := Drain(b, r); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
		t.Errorf("allocated %d bytes while draining", grown)
	}
	if out := b.Output(); out.Bytes != size || !out.Truncated {
		t.Errorf("got %d bytes, truncated %v", out.Bytes, out.Truncated)
	}
}

func TestDrainReportsFailure(t *testing.T) {
	t.Parallel()
	b := New(10, nil)
	err := Drain(b, io.MultiReader(strings.NewReader("abc"), failing{}))
	if err != io.ErrClosedPipe || b.Output().Text != "abc" {
		t.Errorf("Drain = %v, kept %q", err, b.Output().Text)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }
