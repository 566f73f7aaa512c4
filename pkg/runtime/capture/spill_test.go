package capture

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
)

// expected is the text of a stream under a limit, made in the simplest way.
func expected(stream []byte, limit int) string {
	if len(stream) <= limit {
		return strings.ToValidUTF8(string(stream), "\uFFFD")
	}
	head, tail := trimEnd(stream[:limit-limit/2]), trimStart(stream[len(stream)-limit/2:])
	return valid(head) + fmt.Sprintf("\n… %d bytes cut …\n", len(stream)-len(head)-len(tail)) + valid(tail)
}

// TestSpilledOutputs reads outputs that are larger than a Buffer's memory.
func TestSpilledOutputs(t *testing.T) {
	t.Parallel()
	for name, piece := range map[string]string{"text": "abcdefg\n", "runes": "xéé€𝄞", "invalid": "a\xff\xfe", "half runes": "\xc3\xa9\xc3", "zeros": "\x00"} {
		for _, limit := range []int{MaxInMemory, MaxInMemory + 1, 2*MaxInMemory + 1, MaxInMemory * 5} {
			for _, written := range []int{MaxInMemory, MaxInMemory + 1, limit, limit + 1, 2*limit + 5} {
				stream := bytes.Repeat([]byte(piece), written/len(piece)+1)[:written]
				b := New(job.Size(limit), nil)
				for rest := stream; len(rest) > 0; rest = rest[min(len(rest), 50_001):] {
					_, _ = b.Write(rest[:min(len(rest), 50_001)])
				}
				o := b.Output()
				got := o.Text
				if o.Spill != nil {
					all, err := io.ReadAll(o.Spill.Open())
					again, _ := io.ReadAll(iotest.HalfReader(o.Spill.Open()))
					if err != nil || !bytes.Equal(all, again) {
						t.Errorf("%s, %d of %d: it reads differently again: %v", name, written, limit, err)
					}
					got = string(all)
					if len(o.Text) > 3*MaxInMemory || !utf8.ValidString(o.Text) || !strings.HasPrefix(got, o.Text[:1000]) || !strings.HasSuffix(got, o.Text[len(o.Text)-1000:]) {
						t.Errorf("%s, %d of %d: the text of %d bytes is not its ends", name, written, limit, len(o.Text))
					}
				}
				if want := expected(stream, limit); got != want || o.Bytes != int64(written) || o.Truncated != (written > limit) {
					t.Errorf("%s, %d of %d: %d bytes, want %d; %d, %t", name, written, limit, len(got), len(want), o.Bytes, o.Truncated)
				}
				if (o.Spill != nil) != (min(written, limit) > MaxInMemory) {
					t.Errorf("%s, %d of %d: spilled: %t", name, written, limit, o.Spill != nil)
				}
				if o.Spill != nil && o.Spill.Close() != nil {
					t.Error("the file cannot be closed")
				}
			}
		}
	}
}

// TestTextReplacesRuns compares text with strings.ToValidUTF8.
func TestTextReplacesRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.SampledFrom([]byte("ab\xc3\xa9\xe2\x82\xac\xff\xf0\x9f"))).Draw(t, "raw")
		got, err := io.ReadAll(newText(iotest.OneByteReader(bytes.NewReader(raw))))
		if want := valid(raw); err != nil || string(got) != want {
			t.Fatalf("%q: %q, %v, want %q", raw, got, err, want)
		}
	})
}

// TestMemoryOfBuffers fills 64 streams of 16 MiB.
func TestMemoryOfBuffers(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	chunk := bytes.Repeat([]byte{1}, 64<<10)
	var all []job.Output
	for range 64 {
		b := New(16*job.MiB, nil)
		for range 256 {
			_, _ = b.Write(chunk)
		}
		all = append(all, b.Output())
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 64<<20 {
		t.Errorf("64 outputs of 16 MiB hold %d MiB of memory", held>>20)
	}
	for _, o := range all {
		_ = o.Spill.Close()
	}
}

// TestFromSpilled reads a stream that is in a file while it is written, and after its end.
func TestFromSpilled(t *testing.T) {
	t.Parallel()
	const limit = 3 * MaxInMemory
	b := New(job.Size(limit), nil)
	var all []byte
	for i := range 40 {
		piece := bytes.Repeat([]byte{byte(i)}, 50_000)
		_, _ = b.Write(piece)
		all = append(all, piece...)
		for _, at := range []int64{0, 100_000, int64(len(all)) - 10, int64(len(all)) - 300_000} {
			if at > int64(len(all)) {
				continue
			}
			from, data := b.From(at, 4096)
			if from < max(at, 0) || !bytes.Equal(data, all[from:from+int64(len(data))]) || from == at && len(data) == 0 && at < int64(len(all)) && at >= 0 {
				t.Fatalf("after %d bytes: from %d it is %d bytes at %d", len(all), at, len(data), from)
			}
		}
	}
	_ = b.Output().Spill.Close()
	if at, data := b.From(0, 10); at != 0 || !bytes.Equal(data, all[:10]) {
		t.Errorf("after its end: % x at %d", data, at)
	}
	if at, data := b.From(2_000_000-10, 10); len(data) != 0 {
		t.Errorf("what is gone: % x at %d", data, at)
	}
}

// TestNoRoomForAFile loses the part of an output for which there is no file, and reports the loss.
func TestNoRoomForAFile(t *testing.T) {
	t.Setenv("TMPDIR", "/nowhere")
	b := New(job.MiB, nil)
	_, _ = b.Write(bytes.Repeat([]byte("x"), 512<<10))
	o := b.Output()
	if o.Spill != nil || !o.Truncated || o.Bytes != 512<<10 || !strings.HasPrefix(o.Text, strings.Repeat("x", MaxInMemory)) || !strings.Contains(o.Text, "bytes cut") {
		t.Errorf("%d bytes of text, %d written, truncated: %t", len(o.Text), o.Bytes, o.Truncated)
	}
}

func read(o job.Output) string {
	all, err := io.ReadAll(o.Spill.Open())
	return string(all) + strings.Repeat("!", len(fmt.Sprint(err))-len("<nil>"))
}

// TestNewKeeping keeps less than the stream may write.
func TestNewKeeping(t *testing.T) {
	t.Parallel()
	calls := 0
	b := NewKeeping(10, Keep{4, 2}, func() { calls++ })
	_, _ = b.Write([]byte("0123456789"))
	if o := b.Output(); calls != 0 || o.Spill == nil || read(o) != "01\n… 6 bytes cut …\n89" || !o.Truncated || b.Size() != 4 {
		t.Errorf("%+v, %d calls, %d kept", o, calls, b.Size())
	}
	if _, _ = b.Write([]byte("x")); calls != 1 {
		t.Errorf("%d calls above the limit", calls)
	}
}
