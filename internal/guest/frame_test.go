package guest

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/internal/frame"
)

func TestFrames(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	want := []Start{
		{Argv: []string{"true"}, Env: []string{"A=1"}, Dir: "/", UID: 1000, GID: 1000},
		{Argv: []string{"x", strings.Repeat("long", 100_000)}, Filter: []byte{1, 2}},
	}
	for _, s := range want {
		frame, err := Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		stream.Write(frame)
	}
	for i := range want {
		var got Start
		if err := Decode(&stream, &got, MaxFrame); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want[i], got); d != "" {
			t.Error(d)
		}
	}
	if err := Decode(&stream, &Start{}, MaxFrame); err != io.EOF {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	t.Parallel()
	if _, err := Encode(Start{Dir: strings.Repeat("x", MaxFrame)}); err == nil {
		t.Error("encoded a frame above the limit")
	}
}

func framed(body string) []byte { return frame.Of([]byte(body)) }

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string][]byte{
		"half a length":  {0, 0},
		"half a body":    framed(`{"status": 1}`)[:10],
		"no JSON":        framed("status"),
		"unknown field":  framed(`{"status": 1, "more": 2}`),
		"wrong type":     framed(`{"status": "1"}`),
		"two values":     framed(`{"status": 1}{"status": 2}`),
		"too long":       binary.BigEndian.AppendUint32(nil, MaxFrame+1),
		"nothing at all": framed(""),
	} {
		if err := Decode(bytes.NewReader(raw), &ExitStatus{}, MaxFrame); err == nil || err == io.EOF {
			t.Errorf("%s: Decode = %v, want an error of its own", name, err)
		}
	}
}

// TestDecodeDoesNotTrustLengths checks that a length alone allocates no memory.
func TestDecodeDoesNotTrustLengths(t *testing.T) {
	raw := binary.BigEndian.AppendUint32(nil, MaxFrame)
	if n := testing.AllocsPerRun(10, func() { _ = Decode(bytes.NewReader(raw), &ExitStatus{}, MaxFrame) }); n > 20 {
		t.Errorf("%v allocations", n)
	}
	b := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			_ = Decode(bytes.NewReader(raw), &ExitStatus{}, MaxFrame)
		}
	})
	if b.AllocedBytesPerOp() > 64<<10 {
		t.Errorf("%d bytes for an empty body", b.AllocedBytesPerOp())
	}
}

// FuzzGuestProtocol reads a guest's stream as the worker does: Hello, and then ExitStatus until a frame is wrong. Each
// frame may be any bytes.
func FuzzGuestProtocol(f *testing.F) {
	f.Add(slices.Concat(framed(`{"version": 1}`), framed(`{"status": 256}`), framed(`{"status": 1, "error": "x"}`)))
	f.Add(slices.Concat(framed(`{"status": 0}`), framed(`{"version": 1}`)))                   // reordered
	f.Add(append(framed(`{"version": 1}`), 0xff, 0xff, 0xff, 0xff))                           // oversized
	f.Add(append(framed(`{"version": 1}`), 0, 0, 0, 9, '{'))                                  // truncated
	f.Add(slices.Concat(framed(`[]`), framed(``), framed(`null`), framed(`{"status": 1e9}`))) // forged
	f.Fuzz(func(t *testing.T, raw []byte) {
		stream := bytes.NewReader(raw)
		if Decode(stream, &Hello{}, MaxFrame) != nil {
			return
		}
		for {
			var e ExitStatus
			if Decode(stream, &e, MaxFrame) != nil {
				return
			}
			again, err := Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			var same ExitStatus
			if err := Decode(bytes.NewReader(again), &same, MaxFrame); err != nil || same != e {
				t.Fatalf("%+v became %+v, %v", e, same, err)
			}
		}
	})
}

func TestSearchPath(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=/x", "PATH=/bin:/usr/bin::rel"}
	for name, want := range map[string][]string{
		"ls":      {"/bin/ls", "/usr/bin/ls", "/ls", "/rel/ls"}, // never the working directory
		"./ls":    {"./ls"},
		"/bin/ls": {"/bin/ls"},
		"":        nil,
	} {
		if d := cmp.Diff(want, SearchPath(name, env)); d != "" {
			t.Errorf("%q (-want +got):\n%s", name, d)
		}
	}
}
