package capture

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

// The bytes of an output that is not text are there as they are, and outputs of text cost nothing more.
func TestBinaryOutputs(t *testing.T) {
	t.Parallel()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := bytes.Repeat(every, 8<<10) // in a file
	for name, c := range map[string]struct {
		written []byte
		limit   job.Size
		binary  bool
		exact   []byte // nil: as written
	}{
		"text":            {[]byte("é\x00\n"), 64, false, nil},
		"U+FFFD as text":  {[]byte("a\ufffdb"), 64, false, nil},
		"two bytes":       {[]byte("\xf0\xff"), 64, true, nil},
		"every byte":      {every, 512, true, nil},
		"half a rune":     {[]byte("caf\xc3"), 64, true, nil},
		"a surrogate":     {[]byte("\xed\xa0\x80"), 64, true, nil},
		"cut":             {[]byte("ab\xff" + strings.Repeat("x", 100) + "\xfeyz"), 8, true, []byte("ab\xffx\n… 98 bytes cut …\nx\xfeyz")},
		"cut within text": {[]byte(strings.Repeat("é", 100)), 9, false, nil},
		"large":           {large, 16 * job.MiB, true, nil},
		"large text":      {bytes.Repeat([]byte("é"), 1<<20), 16 * job.MiB, false, nil},
		"late in a large": {append(bytes.Repeat([]byte("é"), 1<<20), 0xff), 16 * job.MiB, true, nil},
	} {
		b := New(c.limit, nil)
		_, _ = b.Write(c.written)
		o := b.Output()
		if !utf8.ValidString(o.Text) || o.Binary != c.binary || o.Bytes != int64(len(c.written)) {
			t.Errorf("%s: binary %v, %d bytes, %.40q", name, o.Binary, o.Bytes, o.Text)
		}
		if o.Spill == nil && (o.Base64 != nil) != c.binary {
			t.Errorf("%s: base64 of %d bytes", name, len(o.Base64))
		}
		want := c.exact
		if want == nil {
			want = c.written
		}
		got := o.Exact()
		if o.Spill != nil {
			var err error
			if got, err = io.ReadAll(o.Spill.Exact()); err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(o.Spill.Open()); err != nil || !utf8.Valid(text) {
				t.Errorf("%s: its text is not UTF-8, or %v", name, err)
			}
		}
		if !o.Truncated && !bytes.Equal(got, want) || c.exact != nil && !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes %.60q, want %d %.60q", name, len(got), got, len(want), want)
		}
	}
}
