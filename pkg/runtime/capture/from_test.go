package capture

import (
	"bytes"
	"testing"

	"github.com/assay-run/assay/pkg/job"
)

// TestFrom checks that a reader that continues at the end of each part gets all output, except the parts that
// From reports as cut.
func TestFrom(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1, 7, 64, 1000} {
		b := New(job.Size(limit), nil)
		var all, got []byte
		var at, missed int64
		for i := range 300 {
			piece := bytes.Repeat([]byte{byte(i)}, i%13)
			_, _ = b.Write(piece)
			all = append(all, piece...)
			if i%7 == 0 {
				continue // a slow reader
			}
			from, data := b.From(at, 11)
			if from < at || from > int64(len(all)) || len(data) > 11 {
				t.Fatalf("limit %d: asked from %d, got %d bytes from %d of %d", limit, at, len(data), from, len(all))
			}
			if !bytes.Equal(data, all[from:from+int64(len(data))]) {
				t.Fatalf("limit %d: from %d it is % x", limit, from, data)
			}
			missed += from - at
			at, got = from+int64(len(data)), append(got, data...)
		}
		for data := []byte{0}; len(data) > 0; {
			var from int64
			from, data = b.From(at, 11)
			missed += from - at
			at, got = from+int64(len(data)), append(got, data...)
		}
		if int64(len(got))+missed != int64(len(all)) || limit > 999 && missed > 900 {
			t.Errorf("limit %d: got %d and missed %d of %d", limit, len(got), missed, len(all))
		}
	}
}
