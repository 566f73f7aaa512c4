package grade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/grade/value"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// Blob is a blob of the job's tenant.
type Blob struct {
	runtime.File
	Bytes int64
	Close func()
}

// caseData is what a case reads and what it is expected to write.
type caseData struct{ input, answer *Blob }

// data returns that of a case. Its close is to be called.
func (g *grading) data(ctx context.Context, s *job.Stdio) (*caseData, error) {
	defer g.pause()()
	input, err := g.content(ctx, s.Input())
	if err != nil {
		return nil, err
	}
	answer, err := g.content(ctx, s.Expected())
	if err != nil {
		input.Close()
		return nil, err
	}
	return &caseData{input, answer}, nil
}

func (d *caseData) close() {
	d.input.Close()
	d.answer.Close()
}

func (g *grading) content(ctx context.Context, f job.File) (*Blob, error) {
	if f.Blob == "" {
		data := f.Inline()
		return &Blob{File: runtime.File{Data: data}, Bytes: int64(len(data)), Close: func() {}}, nil
	}
	if g.Blob == nil {
		return nil, fmt.Errorf("blob %s: nothing here fetches blobs", f.Blob)
	}
	return g.Blob(ctx, f.Blob)
}

// open reads it from the beginning.
func (b *Blob) open(ctx context.Context) (io.ReadCloser, error) {
	if b.Data != nil || b.Open == nil {
		return io.NopCloser(bytes.NewReader(b.Data)), nil
	}
	return b.Open(ctx)
}

// head is what it begins with, for people.
func (b *Blob) head(ctx context.Context) (string, error) {
	r, err := b.open(ctx)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, value.MaxRepr+1))
	return job.Clip(strings.ToValidUTF8(string(text), "\uFFFD"), value.MaxRepr), err
}

// feed gives a program what r has on its standard input, in an attempt that is about to run. The returned function is
// called when that is over: it waits, and returns what went wrong with reading.
func feed(a *runtime.Attempt, r io.ReadCloser) (func() error, error) {
	theirs, ours, err := pipeOf(1)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	a.Stdin = theirs
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(ours, r)
		if errors.Is(err, unix.EPIPE) { // it need not read everything
			err = nil
		}
		done <- errors.Join(err, r.Close(), ours.Close())
	}()
	return func() error {
		_ = theirs.Close() // nobody reads any more, so the copy ends
		return <-done
	}, nil
}
