package grade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/worker/grade/value"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// Blob is a blob of the job's tenant.
type Blob struct {
	runtime.File
	Bytes int64
	Close func()
}

// caseData is the input and the expected output of a case.
type caseData struct{ input, answer *Blob }

// data opens the input and the expected output of a case. The caller calls close.
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
		return nil, fmt.Errorf("blob %s: blobs are not available here", f.Blob)
	}
	return g.Blob(ctx, f.Blob)
}

// open reads the blob from its start.
func (b *Blob) open(ctx context.Context) (io.ReadCloser, error) {
	if b.Data != nil || b.Open == nil {
		return io.NopCloser(bytes.NewReader(b.Data)), nil
	}
	return b.Open(ctx)
}

// head returns the beginning of the blob for people.
func (b *Blob) head(ctx context.Context) (string, error) {
	r, err := b.open(ctx)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, value.MaxRepr+1))
	return job.Clip(strings.ToValidUTF8(string(text), "\uFFFD"), value.MaxRepr), err
}

// feed connects r to the standard input of an attempt that is about to run. The caller calls the
// returned function after the run; it waits and returns read errors.
func feed(a *runtime.Attempt, r io.ReadCloser) (func() error, error) {
	theirs, ours, err := pipeOf(1)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	a.Stdin = theirs
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(ours, r)
		if errors.Is(err, unix.EPIPE) { // the program need not read everything
			err = nil
		}
		done <- errors.Join(err, r.Close(), ours.Close())
	}()
	return func() error {
		_ = theirs.Close() // no reader any more, so the copy ends
		return <-done
	}, nil
}
