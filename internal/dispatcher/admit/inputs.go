package admit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/assay-run/assay/pkg/job"
)

// inlineLimit is the largest input, in bytes, that stays in the job's row. Larger inputs become objects, and jobs
// with the same input share one.
const inlineLimit = 64 << 10

// findings caches the findings of an Intake: blobs of its tenant, or languages in images.
type findings struct {
	mu   sync.Mutex
	refs map[string]bool
}

func (s *findings) has(ref string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refs[ref]
}

func (s *findings) add(ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs == nil {
		s.refs = map[string]bool{}
	}
	s.refs[ref] = true
}

// inputs moves large files from the spec to the object store. It returns a *job.FieldError for a named blob that the
// tenant has not uploaded.
func (in *Intake) inputs(ctx context.Context, spec *job.Spec) error {
	if t := spec.Program.Tests; t != nil {
		named := t.Blobs()
		for _, field := range slices.Sorted(maps.Keys(named)) {
			if err := in.checkBlob(ctx, field, named[field]); err != nil {
				return err
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(spec.Files)) {
		f := spec.Files[path]
		if f.Blob != "" {
			if err := in.checkBlob(ctx, fileField(path)+".blob", f.Blob); err != nil {
				return err
			}
			continue
		}
		content := largeContent(f)
		if content == nil {
			continue
		}
		ref, _, err := in.admitter.Blobs.PutBlob(ctx, in.tenant, content, int64(job.MaxSpec))
		if err != nil {
			return fmt.Errorf("store input %s: %w", path, err)
		}
		in.blobs.add(ref)
		spec.Files[path] = job.File{Blob: ref}
	}
	return nil
}

// largeContent returns the decoded content of f if it is too large for a row, else nil.
func largeContent(f job.File) io.Reader {
	switch {
	case f.Text != nil && len(*f.Text) > inlineLimit:
		return strings.NewReader(*f.Text)
	case f.Base64 != nil && base64.StdEncoding.DecodedLen(len(*f.Base64)) > inlineLimit:
		return base64.NewDecoder(base64.StdEncoding, strings.NewReader(*f.Base64))
	}
	return nil
}

func (in *Intake) checkBlob(ctx context.Context, field, ref string) error {
	if in.blobs.has(ref) {
		return nil
	}
	_, err := in.admitter.Blobs.StatBlob(ctx, in.tenant, ref)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return job.Invalid(field, "%s is not here; upload it with PUT /v1/blobs/%s first", ref, ref)
	case errors.Is(err, job.ErrInvalid):
		return job.Invalid(field, "%.80q must be sha256: and 64 lower-case hex digits", ref)
	case err != nil:
		return fmt.Errorf("look for blob %s: %w", ref, err)
	}
	in.blobs.add(ref)
	return nil
}

func fileField(path string) string { return "files[" + strconv.Quote(path) + "]" }
