package sandbox

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/boundedjson"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime/capture"
	"github.com/assay-run/assay/pkg/runtime/mask"
)

// TestDrainAfterTheDeadline checks that a worker without a core until the deadline still reads the program's
// output.
func TestDrainAfterTheDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		written string
		open    bool // a writer is left
		mask    *mask.Mask
		want    string
	}{
		"a line":                        {written: "14\n", want: "14\n"},
		"nothing":                       {},
		"a line, and a writer is left":  {written: "14\n", open: true, want: "14\n"},
		"nothing, and a writer is left": {open: true},
		"a full pipe":                   {written: strings.Repeat("x", 64<<10), open: true, want: strings.Repeat("x", 64<<10)},
		"a secret":                      {written: "a hunter22 b", mask: mask.New([]string{"hunter22"}), want: "a *** b"},
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := pipe(os.Getuid())
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			if _, err := w.WriteString(c.written); err != nil {
				t.Fatal(err)
			}
			if !c.open {
				_ = w.Close()
			}
			if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			b := capture.New(job.MiB, nil)
			drain(b, paidReader(t, r), c.mask, nil)
			if got := b.Output().Text; got != c.want {
				t.Errorf("read %.40q (%d bytes), want %.40q", got, len(got), c.want)
			}
		})
	}
}

// TestResultAfterTheDeadline checks the same for the document that the harness writes.
func TestResultAfterTheDeadline(t *testing.T) {
	r, w, err := pipe(os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, _ = w.WriteString(`{"value": null}`)
	_ = w.Close()
	_ = r.SetReadDeadline(time.Unix(1, 0))
	data, err := boundedjson.ReadAll(paidReader(t, r), maxPythonResult, resultLimits)
	if err != nil || string(data) != `{"value": null}` {
		t.Errorf("read %q, %v", data, err)
	}
}

// TestDrainOfAnEndlessWriter checks that a writer that never ends does not keep the worker reading after the
// deadline.
func TestDrainOfAnEndlessWriter(t *testing.T) {
	r, w, err := pipe(os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		chunk := bytes.Repeat([]byte("x"), 32<<10)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}()
	defer w.Close()
	_ = r.SetReadDeadline(time.Unix(1, 0))
	from := paidReader(t, r)
	b := make([]byte, 32<<10)
	total := 0
	for {
		n, err := from.Read(b)
		if total += n; total > mostBuffered+len(b) {
			t.Fatalf("read %d bytes after the deadline", total)
		}
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("ended with %v", err)
			}
			return
		}
	}
}

// paidReader returns the reader of a program's pipe.
func paidReader(t *testing.T, r *os.File) *pipeReader {
	t.Helper()
	from, err := newPipeReader(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return from
}
