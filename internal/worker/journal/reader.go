package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"time"
)

// ErrNoEntry is the error of Reader for a number that no entry has yet.
var ErrNoEntry = errors.New("no such entry")

// Reader reads a journal in order. It is not safe for concurrent use.
type Reader struct {
	j       *Journal
	next    int64  // number of the next entry
	offset  int64  // behind the entry before; -1: unknown
	file    *file  // of the entry before; nil: none
	at      int64  // behind it in file
	pending *Entry // follows a Gap
	ended   bool
}

// Reader returns a reader of the entries after a number; 0 means all. The error wraps ErrNoEntry if there is no entry
// with this number.
func (j *Journal) Reader(after int64) (*Reader, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := j.next - 1
	if j.end != nil {
		last = j.end.Seq
	}
	if after < 0 || after > last {
		return nil, fmt.Errorf("%w: %d; the last one is %d", ErrNoEntry, after, last)
	}
	r := &Reader{j: j, next: after + 1, offset: -1, ended: j.end != nil && after == j.end.Seq}
	if after == 0 {
		r.offset = 0
	}
	return r, nil
}

// Next returns the next entry. It waits for one until ctx ends, and returns io.EOF after the end of the command. Its
// other errors are of the disk, or wrap os.ErrClosed after Remove.
func (r *Reader) Next(ctx context.Context) (Entry, error) {
	for r.pending == nil {
		e, more, err := r.read()
		if err != nil {
			return Entry{}, err
		}
		if e == nil {
			select {
			case <-more:
				continue
			case <-ctx.Done():
				return Entry{}, context.Cause(ctx)
			}
		}
		before := r.offset
		r.offset, r.pending = e.Offset+int64(len(e.Data)), e
		if before >= 0 && e.Offset > before {
			return Entry{Seq: e.Seq - 1, Kind: Gap, At: e.At, Offset: before, Missing: e.Offset - before}, nil
		}
	}
	e := *r.pending
	r.pending = nil
	return e, nil
}

// read returns the next entry, or a channel that is closed when there is more.
func (r *Reader) read() (*Entry, <-chan struct{}, error) {
	if r.ended {
		return nil, nil, io.EOF
	}
	for {
		f, from, more, err := r.find()
		switch {
		case err != nil || more != nil:
			return nil, more, err
		case f == nil: // the journal's end, which cannot change
			r.ended = true
			return r.j.end, nil, nil
		}
		e, err := r.readFrom(f, from)
		if !errors.Is(err, os.ErrClosed) {
			return e, nil, err
		}
		r.file = nil // it was removed meanwhile
	}
}

// find returns the file of the next entry and a position in it, at or before the entry. It skips removed entries. The
// file is nil for the end. If there is no next entry yet, find returns a channel that is closed when there is more.
func (r *Reader) find() (f *file, from mark, more <-chan struct{}, err error) {
	j := r.j
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.removed:
		return nil, mark{}, nil, fmt.Errorf("read a journal: it was removed: %w", os.ErrClosed)
	case r.next >= j.next && j.end == nil:
		return nil, mark{}, j.more, nil
	case r.next >= j.next:
		return nil, mark{}, nil, nil
	}
	i := sort.Search(len(j.files), func(i int) bool { return j.files[i].start.seq > r.next }) - 1
	f = j.files[i]
	if r.next >= f.behind.seq { // removed: continue with the next file
		if r.offset < 0 {
			r.offset = f.behind.offset
		}
		f = j.files[i+1]
		r.next = f.start.seq
	}
	if r.file == f {
		return f, mark{seq: r.next, at: r.at, offset: r.offset}, nil, nil
	}
	n := sort.Search(len(f.index), func(n int) bool { return f.index[n].seq > r.next })
	return f, f.index[n-1], nil, nil
}

// readFrom reads the next entry from f, beginning at a position at or before it.
func (r *Reader) readFrom(f *file, m mark) (*Entry, error) {
	for {
		var head [headSize]byte
		if _, err := f.f.ReadAt(head[:], m.at); err != nil {
			return nil, fmt.Errorf("read a journal: %w", err)
		}
		e := &Entry{
			Seq: m.seq, Kind: Kind(head[0]), At: time.Duration(binary.LittleEndian.Uint64(head[1:])),
			Offset: int64(binary.LittleEndian.Uint64(head[9:])),
		}
		size := int64(binary.LittleEndian.Uint32(head[17:]))
		behind := m.at + headSize + size
		if m.seq < r.next {
			m = mark{seq: m.seq + 1, at: behind, offset: e.Offset + size}
			continue
		}
		e.Data = make([]byte, size)
		if _, err := f.f.ReadAt(e.Data, m.at+headSize); err != nil {
			return nil, fmt.Errorf("read a journal: %w", err)
		}
		if r.offset < 0 {
			r.offset = m.offset
		}
		r.file, r.at, r.next = f, behind, m.seq+1
		return e, nil
	}
}
