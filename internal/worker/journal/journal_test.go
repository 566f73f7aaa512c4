package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func create(t *testing.T, limit int64) *Journal {
	t.Helper()
	j, err := Create(filepath.Join(t.TempDir(), "j"), limit)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// readAll reads the entries after a number, and checks that numbers and offsets have no unreported gap.
func readAll(t *testing.T, j *Journal, after int64) (entries []Entry) {
	t.Helper()
	r, err := j.Reader(after)
	if err != nil {
		t.Fatal(err)
	}
	last, offset := after, int64(-1)
	for {
		e, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		if offset >= 0 && e.Offset != offset {
			t.Fatalf("entry %d is at offset %d, want %d", e.Seq, e.Offset, offset)
		}
		if e.Kind != Gap && e.Seq != last+1 {
			t.Fatalf("entry %d follows entry %d", e.Seq, last)
		}
		last, offset = e.Seq, e.Offset+int64(len(e.Data))+e.Missing
		entries = append(entries, e)
	}
}

// TestReplay checks that readers from every position get exactly the bytes of each stream and the end.
func TestReplay(t *testing.T) {
	t.Parallel()
	j := create(t, 64<<20)
	var want [][]byte
	for i := range 500 {
		data := bytes.Repeat([]byte{byte(i)}, rand.IntN(3000)+1)
		if err := j.Append(Stdout+Kind(i%2), data); err != nil {
			t.Fatal(err)
		}
		want = append(want, data)
	}
	if err := j.Finish([]byte("exit 0")); err != nil {
		t.Fatal(err)
	}
	for after := range int64(502) {
		got := readAll(t, j, after)
		if len(got) != 501-int(after) {
			t.Fatalf("after %d: %d entries", after, len(got))
		}
		for n, e := range got[:max(len(got)-1, 0)] {
			i := int(after) + n
			if e.Kind != Stdout+Kind(i%2) || !bytes.Equal(e.Data, want[i]) {
				t.Fatalf("after %d: entry %d is %d with %d bytes", after, i, e.Kind, len(e.Data))
			}
		}
		if len(got) > 0 && (got[len(got)-1].Kind != End || string(got[len(got)-1].Data) != "exit 0") {
			t.Fatalf("after %d: the end is %+v", after, got[len(got)-1])
		}
	}
	for _, after := range []int64{-1, 502} {
		if _, err := j.Reader(after); !errors.Is(err, ErrNoEntry) {
			t.Errorf("after %d: %v", after, err)
		}
	}
	if err := errors.Join(j.Append(Stdout, nil), j.Finish(nil)); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// TestFollow checks that readers beside the writers get every byte in order, while one that does not read delays no
// writer.
func TestFollow(t *testing.T) {
	t.Parallel()
	j := create(t, 256<<20)
	idle, err := j.Reader(0)
	if err != nil {
		t.Fatal(err)
	}
	const streams, pieces = 2, 2000
	var want [streams]bytes.Buffer
	var got [4][streams]bytes.Buffer
	var readers, writers sync.WaitGroup
	for i := range got {
		r, err := j.Reader(0)
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			for {
				e, err := r.Next(t.Context())
				if err != nil || e.Kind == Gap {
					t.Errorf("entry %+v: %v", e, err)
					return
				}
				if e.Kind == End {
					return
				}
				got[i][e.Kind-Stdout].Write(e.Data)
			}
		})
	}
	for i := range streams {
		writers.Go(func() {
			for n := range pieces {
				piece := fmt.Appendf(nil, "%d %d %s\n", i, n, bytes.Repeat([]byte("x"), rand.IntN(2000)))
				want[i].Write(piece)
				if err := j.Append(Stdout+Kind(i), piece); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if err := j.Finish(nil); err != nil {
		t.Fatal(err)
	}
	readers.Wait()
	for i := range got {
		for s := range want {
			if !bytes.Equal(got[i][s].Bytes(), want[s].Bytes()) {
				t.Errorf("reader %d got %d bytes of stream %d, want %d", i, got[i][s].Len(), s, want[s].Len())
			}
		}
	}
	if e, err := idle.Next(t.Context()); err != nil || e.Seq != 1 {
		t.Errorf("the idle reader got %+v, %v", e, err)
	}
}

// TestLimit checks that a journal above its limit keeps the first and the latest bytes on a bounded disk, and reports
// exactly how many are missing to late readers.
func TestLimit(t *testing.T) {
	t.Parallel()
	const limit = 2 << 20
	j := create(t, limit)
	slow, err := j.Reader(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := slow.read(); err != nil { // nothing yet
		t.Fatal(err)
	}
	total := 0
	for i := range 20_000 {
		data := fmt.Appendf(nil, "%d %s\n", i, bytes.Repeat([]byte("y"), rand.IntN(1000)))
		if err := j.Append(Stdout, data); err != nil {
			t.Fatal(err)
		}
		if total += len(data); i == 50 {
			for range 20 {
				if e, err := slow.Next(t.Context()); err != nil || e.Kind != Stdout {
					t.Fatal(e, err)
				}
			}
		}
	}
	if err := j.Finish(nil); err != nil {
		t.Fatal(err)
	}
	if n := diskOf(t, j.dir); n > limit+limit/parts+2*MaxEntry {
		t.Errorf("the journal has %d bytes on the disk, its limit is %d", n, limit)
	}
	for name, entries := range map[string][]Entry{"all": readAll(t, j, 0), "behind the first": readAll(t, j, 100), "a removed one": readAll(t, j, 5000)} {
		read, gaps := 0, 0
		for _, e := range entries {
			read += len(e.Data) + int(e.Missing)
			if e.Kind == Gap {
				gaps++
			}
		}
		if want := total - int(entries[0].Offset); read != want || gaps != 1 {
			t.Errorf("%s: %d bytes were read or reported as missing in %d gaps, want %d in one", name, read, gaps, want)
		}
		if last := entries[len(entries)-2]; !bytes.HasPrefix(last.Data, []byte("19999 ")) {
			t.Errorf("%s: the last output is %.10q", name, last.Data)
		}
	}
	e, err := slow.Next(t.Context())
	for err == nil && e.Kind == Stdout && e.Seq < 10_000 {
		e, err = slow.Next(t.Context())
	}
	if err != nil || e.Kind != Gap {
		t.Errorf("the slow reader met %+v, %v, want a gap", e, err)
	}
}

func diskOf(t *testing.T, dir string) (size int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

// TestFullDisk checks that output which the disk does not take becomes a gap, and that later output and the end are
// stored.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts a small tmpfs: run it as root")
	}
	dir := t.TempDir()
	if err := unix.Mount("small", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 128<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := Create(filepath.Join(dir, "j"), MinLimit)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range 16 {
		if err := j.Append(Stdout, make([]byte, 10_000)); errors.Is(err, unix.ENOSPC) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Append(Stderr, []byte("later")), j.Finish([]byte("exit 1"))); err != nil {
		t.Fatal(err)
	}
	entries := readAll(t, j, 0)
	if n := len(entries); refused == 0 || n < 3 || entries[n-3].Kind != Gap || entries[n-3].Missing != int64(refused)*10_000 ||
		string(entries[n-2].Data) != "later" || entries[n-1].Kind != End {
		t.Errorf("%d appends were refused; the journal has %d entries, the last ones %+v", refused, n, entries[max(n-3, 0):])
	}
}

// TestWaits checks that a reader waits for the next entry, and no longer than its context or the journal.
func TestWaits(t *testing.T) {
	t.Parallel()
	j := create(t, MinLimit)
	r, err := j.Reader(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an entry: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = j.Append(Stdout, []byte("x")) })
	if e, err := r.Next(t.Context()); err != nil || string(e.Data) != "x" {
		t.Errorf("got %+v, %v", e, err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = j.Remove() })
	if _, err := r.Next(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after the removal: %v", err)
	}
	if _, err := os.Stat(j.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory remains: %v", err)
	}
}
