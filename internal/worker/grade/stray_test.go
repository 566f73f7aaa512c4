package grade

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/assay-run/assay/internal/frame"
)

// TestStrayFrames checks that a case ends at the first frame that is too long for it. It also ends after 1 MiB of frames
// that it does not wait for.
func TestStrayFrames(t *testing.T) {
	t.Parallel()
	values := func(n int) string { return strings.Repeat("[],", n) + "[]" }
	late := `{"op": "late", "id": 7}`
	answer := `{"op": "return", "id": 7, "value": 1}`
	for name, c := range map[string]struct {
		first []string // before the flood
		flood string   // sent until the worker hangs up
		most  int      // bytes that the worker may read of it
	}{
		"unknown op":                 {nil, `{"op":"x","id":0,"value":[` + values(600_000) + `]}`, 300},
		"unknown op of this case":    {nil, `{"op":"x","id":7,"value":[` + values(600_000) + `]}`, 300},
		"answer of another case":     {nil, `{"op":"return","id":6,"value":[` + values(600_000) + `]}`, 300},
		"id at the end":              {nil, `{"value":[` + values(600_000) + `],"op":"return","id":7}`, 300},
		"id behind a long op":        {nil, `{"op":"` + strings.Repeat("x", 100_000) + `","id":7}`, 300},
		"long request for time":      {nil, `{"op":"late","id":7,"value":[` + values(600_000) + `]}`, 300},
		"long end":                   {nil, `{"op":"ended","id":7,"value":[` + values(600_000) + `]}`, 300},
		"second answer":              {[]string{answer}, `{"op":"return","id":7,"value":[` + values(600_000) + `]}`, 300},
		"second exception":           {[]string{answer}, `{"op":"raise","id":7,"problem":"` + strings.Repeat("x", 100_000) + `"}`, 300},
		"frames of 60 KiB":           {nil, `{"op":"x","id":0,"value":[` + values(20_000) + `]}`, 1<<20 + 128<<10},
		"second answers of 60 KiB":   {[]string{answer}, `{"op":"return","id":7,"value":[` + values(20_000) + `]}`, 1<<20 + 128<<10},
		"requests for time of 60 KB": {nil, `{"op":"late","id":7,"value":[` + values(20_000) + `]}`, 1<<20 + 128<<10},
		"small frames":               {nil, `{}`, 130 * 6},
		"requests for time":          {nil, late, 130 * (len(late) + 4)},
		"garbage":                    {nil, "\x00\x01", 10},
		"empty frames":               {nil, "", 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			frames, r, sent := flooded(t, c.first, c.flood)
			var err error
			for range c.first {
				if _, err = frames.next(r); err != nil {
					t.Fatal(err)
				}
			}
			for err == nil {
				var f *message
				if f, err = frames.next(r); err == nil && f.Op != "late" {
					t.Fatalf("%s of %d bytes is an answer", f.Op, len(f.raw))
				}
			}
			if !errors.Is(err, frame.ErrProtocol) {
				t.Errorf("%v, want a breach of the protocol", err)
			}
			if got := int(sent.Load()); got > c.most {
				t.Errorf("the worker read %d bytes, want at most %d", got, c.most)
			}
		})
	}
}

// TestAnswersAmongStrayFrames checks that frames of earlier cases, and the largest answer, break no case.
func TestAnswersAmongStrayFrames(t *testing.T) {
	t.Parallel()
	large := `{"op": "return", "id": 7, "value": "` + strings.Repeat("x", MaxFrame-50) + `"}`
	frames, r, _ := flooded(t, []string{
		`{"op": "return", "id": 6, "value": 1}`, `{"op": "ended", "id": 6}`, `{"op":"x"}`, `{"op": "late", "id": 7}`, large,
		`{"op": "return", "id": 7, "value": 2}`, `{"op": "late", "id": 7}`, `{"op": "ended", "id": 7, "signal": 9}`,
	}, "")
	for _, want := range []string{"late", "return", "late", "ended"} {
		f, err := frames.next(r)
		if err != nil {
			t.Fatal(err)
		}
		if f.Op != want || f.ID != 7 || want == "return" && len(f.raw) != len(large) {
			t.Errorf("%s of case %d with %d bytes, want %s", f.Op, f.ID, len(f.raw), want)
		}
	}
}

// flooded returns the frames of case 7, and the stream of a solution that sends first, and then flood until the
// worker hangs up. sent counts the bytes of flood that the worker has read.
func flooded(t *testing.T, first []string, flood string) (*caseFrames, io.Reader, *atomic.Int64) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close() })
	var sent atomic.Int64
	go func() {
		for _, f := range first {
			if _, err := theirs.Write(frame.Of([]byte(f))); err != nil {
				return
			}
		}
		for raw := frame.Of([]byte(flood)); ; {
			n, err := theirs.Write(raw)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	return &caseFrames{id: 7}, ours, &sent
}

// TestNoCut checks that an end within a frame is no breach of the protocol, also within the part that is read twice.
func TestNoCut(t *testing.T) {
	t.Parallel()
	for _, sent := range []int{1, 4, 100, 5000} {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = theirs.Write(frame.Of([]byte(fmt.Sprintf(`{"op":"return","id":7,"value":"%0100000d"}`, 0)))[:sent])
			_ = theirs.Close()
		}()
		_, err := (&caseFrames{id: 7}).next(ours)
		if errors.Is(err, frame.ErrProtocol) || !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			t.Errorf("after %d bytes: %v", sent, err)
		}
	}
}
