// Package journal stores the output of a command on the worker's disk, so that clients can read it again from any
// position, for example after a broken connection.
//
// A journal is a sequence of entries, numbered from 1. Each entry is a piece of a stream, as the command wrote it. The
// last entry is the end of the command. One goroutine for each stream appends, and any number of readers follow. A slow
// reader delays neither the command nor other readers.
//
// The size of a journal is limited. At its limit the journal removes entries from the middle and keeps the first and
// the latest ones. A reader whose next entry was removed gets a Gap with the number of missing bytes. A reader that
// keeps up gets all entries.
package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Kind is the kind of an entry.
type Kind byte

// The kinds.
const (
	Stdout   Kind = 1
	Stderr   Kind = 2
	Terminal Kind = 3 // output of a terminal, which has one stream
	End      Kind = 4 // the end of the command; Data is the caller's description
	Gap      Kind = 5 // bytes are missing
)

// Entry is one event of a journal.
type Entry struct {
	Seq     int64 // its number; of a Gap, the number of the entry before the next one
	Kind    Kind
	At      time.Duration // since the creation of the journal
	Offset  int64         // bytes of all streams before it
	Data    []byte
	Missing int64 // of a Gap: bytes of all streams that were removed or could not be stored
}

const (
	// MaxEntry is the most bytes of one entry. Append divides longer data.
	MaxEntry = 64 << 10
	// MinLimit is the smallest limit of a journal, in bytes.
	MinLimit = parts * 2 * MaxEntry

	// parts is the number of files of a journal at its limit.
	parts = 8
	// headSize is the size of an entry's head in a file, in bytes: kind, At and Offset, length.
	headSize = 1 + 8 + 8 + 4
)

// ErrEnded is the error of Append and Finish after the end, and after Remove.
var ErrEnded = errors.New("the journal has ended")

// Journal is the journal of one command. All methods are safe for concurrent use.
type Journal struct {
	dir   string
	most  int64 // size at which a file is full
	began time.Time

	mu      sync.Mutex
	files   []*file // the first file and the latest ones
	made    int     // files so far
	next    int64   // number of the next entry
	written int64   // bytes of all streams so far
	stored  int64   // Offset behind the last stored entry
	end     *Entry  // nil: the command runs
	removed bool
	more    chan struct{} // closed at the next entry
}

// file is a file of a journal. Journal.mu guards its fields. The bytes of f before behind.at never change.
type file struct {
	f      *os.File
	start  mark
	behind mark // of its last entry
	index  []mark
}

// mark is a position between two entries.
type mark struct {
	seq    int64 // number of the next entry
	at     int64 // in the file
	offset int64 // Offset behind the entry before
}

// Create creates an empty journal in a new directory. limit is its size on the disk in bytes, at least MinLimit.
func Create(dir string, limit int64) (*Journal, error) {
	if limit < MinLimit {
		return nil, fmt.Errorf("create a journal: the limit of %d bytes is below %d", limit, MinLimit)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create a journal: %w", err)
	}
	return &Journal{dir: dir, most: limit / parts, began: time.Now(), next: 1, more: make(chan struct{})}, nil
}

// Append adds bytes of a stream. It waits for the disk, but for no reader. Bytes that cannot be stored become a Gap:
// Append returns the error and may be called again. It returns ErrEnded after the end.
func (j *Journal) Append(kind Kind, data []byte) (err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.end != nil || j.removed {
		return ErrEnded
	}
	for len(data) > 0 {
		n := min(len(data), MaxEntry)
		if serr := j.store(kind, data[:n]); serr != nil {
			err = fmt.Errorf("store output: %w", serr)
		}
		j.written += int64(n)
		data = data[n:]
	}
	j.wake()
	return err
}

// Finish adds the end of the command. It needs no space on the disk. It returns ErrEnded after the end.
func (j *Journal) Finish(data []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.end != nil || j.removed {
		return ErrEnded
	}
	j.end = &Entry{Seq: j.next, Kind: End, At: time.Since(j.began), Offset: j.written, Data: data}
	j.wake()
	return nil
}

// Remove deletes the journal. Readers get an error that wraps os.ErrClosed.
func (j *Journal) Remove() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range j.files {
		_ = f.f.Close()
	}
	j.files, j.removed = nil, true
	j.wake()
	if err := os.RemoveAll(j.dir); err != nil {
		return fmt.Errorf("remove a journal: %w", err)
	}
	return nil
}

// wake continues the waiting readers. The caller holds the lock.
func (j *Journal) wake() {
	close(j.more)
	j.more = make(chan struct{})
}

// store writes an entry. The caller holds the lock.
func (j *Journal) store(kind Kind, data []byte) error {
	f, err := j.current()
	if err != nil {
		return err
	}
	b := make([]byte, headSize, headSize+len(data))
	b[0] = byte(kind)
	binary.LittleEndian.PutUint64(b[1:], uint64(time.Since(j.began)))
	binary.LittleEndian.PutUint64(b[9:], uint64(j.written))
	binary.LittleEndian.PutUint32(b[17:], uint32(len(data)))
	if _, err := f.f.WriteAt(append(b, data...), f.behind.at); err != nil { // a later entry overwrites its part
		return err
	}
	if last := f.index[len(f.index)-1]; f.behind.at-last.at >= MaxEntry {
		f.index = append(f.index, f.behind)
	}
	j.next++
	j.stored = j.written + int64(len(data))
	f.behind = mark{seq: j.next, at: f.behind.at + headSize + int64(len(data)), offset: j.stored}
	return nil
}

// current returns the file for the next entry. At the limit it removes the second oldest file. The caller holds the lock.
func (j *Journal) current() (*file, error) {
	if n := len(j.files); n > 0 && j.files[n-1].behind.at < j.most {
		return j.files[n-1], nil
	}
	f, err := os.OpenFile(filepath.Join(j.dir, strconv.Itoa(j.made)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	j.made++
	start := mark{seq: j.next, offset: j.stored}
	j.files = append(j.files, &file{f: f, start: start, behind: start, index: []mark{start}})
	if len(j.files) > parts {
		old := j.files[1].f
		j.files = append(j.files[:1:1], j.files[2:]...)
		_, _ = old.Close(), os.Remove(old.Name()) // readers of old repeat their search
	}
	return j.files[len(j.files)-1], nil
}
