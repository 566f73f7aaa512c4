package disk

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "disks"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func make1(t *testing.T, s *Store, size int64, files int) *Disk {
	t.Helper()
	d, err := s.Create(t.Context(), size, files)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fill writes a file until the disk is full, and returns its size.
func fill(t *testing.T, file string) (size int64) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := bytes.Repeat([]byte("x"), 64<<10); ; {
		n, err := f.Write(chunk)
		size += int64(n)
		if errors.Is(err, unix.ENOSPC) {
			return size
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestLimits checks that a disk holds what it was made for, and little more.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, size := range []int64{MinSize, 200 << 20} {
		for _, files := range []int{1, 50_000} {
			d := make1(t, s, size, files)
			n := 0
			for err := error(nil); ; n++ {
				var f *os.File
				if f, err = os.OpenFile(filepath.Join(d.Dir, fmt.Sprint(n)), os.O_CREATE|os.O_EXCL, 0o600); err != nil {
					if !errors.Is(err, unix.ENOSPC) {
						t.Fatal(err)
					}
					break
				}
				_ = f.Close()
			}
			// The inodes of a group of blocks are a multiple of a page, and directories take blocks.
			if most := files + files/20 + 64 + 16*int((size+int64(files)*inodeSize)>>27+1)*2; n < files || n > most {
				t.Errorf("a disk of %d bytes and %d files takes %d files, want up to %d", size, files, n, most)
			}
			if _, full, err := d.Full(); !full || err != nil {
				t.Errorf("files are used up: %v, %v", full, err)
			}
			for i := range n {
				_ = os.Remove(filepath.Join(d.Dir, fmt.Sprint(i)))
			}
			if got := fill(t, filepath.Join(d.Dir, "large")); got < size || got > size+size/32+8<<20 {
				t.Errorf("a disk of %d bytes and %d files takes %d bytes", size, files, got)
			}
			if full, _, err := d.Full(); !full || err != nil {
				t.Errorf("the space is used up: %v, %v", full, err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, bad := range [][2]int64{{MinSize - 1, 1}, {MaxSize + 1, 1}, {MinSize, 0}} {
		if _, err := s.Create(t.Context(), bad[0], int(bad[1])); err == nil {
			t.Errorf("%v was made", bad)
		}
	}
}

// TestDisksTakeTheSpaceOfTheirFiles checks that an empty disk takes little of the host's space, and that deleted files
// give it back.
func TestDisksTakeTheSpaceOfTheirFiles(t *testing.T) {
	t.Parallel()
	d := make1(t, open(t), 10<<30, 200_000)
	used := func() int64 {
		t.Helper()
		root, err := os.Open(d.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := unix.Syncfs(int(root.Fd())); err != nil {
			t.Fatal(err)
		}
		n, err := d.Used()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	empty := used()
	if empty > 2<<20 {
		t.Errorf("an empty disk takes %d bytes", empty)
	}
	data := make([]byte, 50<<20)
	_, _ = rand.Read(data)
	if err := os.WriteFile(filepath.Join(d.Dir, "f"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := used(); n < empty+50<<20 {
		t.Errorf("with 50 MiB it takes %d bytes", n)
	}
	if err := os.Remove(filepath.Join(d.Dir, "f")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); used() > empty+10<<20; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after the deletion it takes %d bytes", used())
		}
	}
}

// TestCopy checks that a copy of a disk in use has the content of one moment, and is independent.
func TestCopy(t *testing.T) {
	t.Parallel()
	d := make1(t, open(t), 256<<20, 10_000)
	data := make([]byte, 10<<20)
	_, _ = rand.Read(data)
	if err := os.WriteFile(filepath.Join(d.Dir, "f"), data, 0o640); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() { // each file is complete before the next one begins
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := os.WriteFile(filepath.Join(d.Dir, fmt.Sprintf("n%d", i%500)), bytes.Repeat([]byte{byte(i)}, 5000), 0o600); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 5 {
		c, err := d.Copy()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(c.Dir, "f")); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the copy's file has %d bytes, %v", len(got), err)
		}
		entries, err := os.ReadDir(c.Dir)
		if err != nil {
			t.Fatal(err)
		}
		partial := 0
		for _, e := range entries {
			if e.IsDir() { // lost+found
				continue
			}
			if b, err := os.ReadFile(filepath.Join(c.Dir, e.Name())); err != nil {
				t.Error(err)
			} else if strings.HasPrefix(e.Name(), "n") && len(b) != 5000 {
				partial++
			}
		}
		if partial > 1 {
			t.Errorf("%d files of the copy are partial; one can be", partial)
		}
		if err := os.WriteFile(filepath.Join(c.Dir, "f"), nil, 0o600); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	writer.Wait()
	if got, err := os.ReadFile(filepath.Join(d.Dir, "f")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the original has %d bytes, %v", len(got), err)
	}
}

// TestManyAtOnce checks that disks made at the same time are separate, and that nothing of them is left.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	before := loops(t, s)
	var all sync.WaitGroup
	var mu sync.Mutex
	var disks []*Disk
	for i := range 24 {
		all.Go(func() {
			d, err := s.Create(t.Context(), 32<<20, 1000)
			if err != nil {
				t.Error(err)
				return
			}
			if err := os.WriteFile(filepath.Join(d.Dir, fmt.Sprint(i)), nil, 0o600); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			disks = append(disks, d)
		})
	}
	all.Wait()
	for _, d := range disks {
		if entries, err := os.ReadDir(d.Dir); err != nil || len(entries) != 2 { // lost+found
			t.Errorf("a disk has %v, %v", entries, err)
		}
	}
	for _, d := range disks[:12] {
		if err := errors.Join(d.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	}
	again, err := Open(s.dir) // as after a crash
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(again.dir); err != nil || len(entries) > 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	for end := time.Now().Add(10 * time.Second); loops(t, s) > before; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d loop devices are in use, %d were before", loops(t, s), before)
		}
	}
}

// loops counts the loop devices with files of a store.
func loops(t *testing.T, s *Store) (n int) {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), s.dir) {
			n++
		}
	}
	return n
}

// BenchmarkCreate makes and removes a disk of 10 GiB.
func BenchmarkCreate(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "disks"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		d, err := s.Create(b.Context(), 10<<30, 200_000)
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
