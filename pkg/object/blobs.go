package object

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// spoolMemory is the most bytes of a blob in memory before its digest (and so its key) is known.
// The rest goes to a temporary file.
const spoolMemory = 1 << 20

// BlobKey returns the object path of a tenant's content-addressed blob. A job names it as
// "sha256:<64 hex digits>". Tenants share no blobs: only a tenant that uploaded the bytes can read
// a blob or learn that it exists. The error wraps job.ErrInvalid.
func BlobKey(tenant, ref string) (string, error) {
	if tenant == "" {
		return "", job.Invalid("tenant", "must not be empty")
	}
	sum, ok := strings.CutPrefix(ref, "sha256:")
	if !ok || len(sum) != 2*sha256.Size || strings.Trim(sum, "0123456789abcdef") != "" {
		return "", job.Invalid("blob", "%.80q must be sha256: and 64 lower-case hex digits", ref)
	}
	return BlobPrefix + escape(tenant) + "/sha256/" + sum[:2] + "/" + sum, nil
}

// BlobPrefix is the prefix of the keys of all blobs.
const BlobPrefix = "blobs/"

// PutBlob stores the content of r under its digest for a tenant. It returns the reference
// ("sha256:…") and the size in bytes. It does not rewrite an existing blob, but renews its age. If
// there are more than limit bytes, it stores nothing and returns an error that wraps
// job.ErrTooLarge.
func (s *Store) PutBlob(ctx context.Context, tenant string, r io.Reader, limit int64) (ref string, n int64, err error) {
	sum := sha256.New()
	sp := &spool{}
	defer sp.close()
	n, err = io.Copy(io.MultiWriter(sum, sp), io.LimitReader(r, limit+1))
	if err != nil {
		return "", 0, fmt.Errorf("read blob: %w", err)
	}
	if n > limit {
		return "", 0, fmt.Errorf("%w: blob has more than %d bytes", job.ErrTooLarge, limit)
	}
	ref = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	key, err := BlobKey(tenant, ref)
	if err != nil {
		return "", 0, err
	}
	if have, err := s.Stat(ctx, key); err == nil && have.Bytes == n {
		if _, err := s.refresh(ctx, have); err == nil {
			return ref, n, nil
		}
	}
	body, err := sp.rewind()
	if err != nil {
		return "", 0, fmt.Errorf("spool blob: %w", err)
	}
	if _, err := s.Put(ctx, key, body); err != nil {
		return "", 0, err
	}
	return ref, n, nil
}

// StatBlob returns the size of a tenant's blob. It renews the blob's age, so that expiry does not
// delete it soon (see refresh). The error wraps job.ErrNotFound if the blob does not exist.
func (s *Store) StatBlob(ctx context.Context, tenant, ref string) (Info, error) {
	key, err := BlobKey(tenant, ref)
	if err != nil {
		return Info{}, err
	}
	have, err := s.Stat(ctx, key)
	if err != nil {
		return Info{}, err
	}
	return s.refresh(ctx, have)
}

// errCorrupt is the error of a verified read with a wrong digest.
var errCorrupt = errors.New("content does not match its digest")

// GetBlob opens a tenant's blob. The reader verifies the digest: if it is wrong, the reader returns
// an error that wraps job.ErrUnavailable instead of io.EOF.
func (s *Store) GetBlob(ctx context.Context, tenant, ref string) (io.ReadCloser, int64, error) {
	key, err := BlobKey(tenant, ref)
	if err != nil {
		return nil, 0, err
	}
	r, info, err := s.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	return &verifier{ReadCloser: r, sum: sha256.New(), want: ref}, info.Bytes, nil
}

type verifier struct {
	io.ReadCloser
	sum  hash.Hash
	want string
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.sum.Write(p[:n])
	if err == io.EOF && "sha256:"+hex.EncodeToString(v.sum.Sum(nil)) != v.want {
		return n, fmt.Errorf("blob %s: %w: %w", v.want, job.ErrUnavailable, errCorrupt)
	}
	return n, err
}

// spool holds bytes until they are read back: a few in memory, more in an unlinked temporary file.
type spool struct {
	mem  bytes.Buffer
	file *os.File
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.mem.Len()+len(p) <= spoolMemory {
		return s.mem.Write(p)
	}
	if s.file == nil {
		f, err := os.CreateTemp("", "assay-blob-")
		if err != nil {
			return 0, err
		}
		_ = os.Remove(f.Name()) // the open descriptor keeps the file; a crash leaves nothing behind
		s.file = f
	}
	return s.file.Write(p)
}

func (s *spool) rewind() (io.Reader, error) {
	if s.file == nil {
		return &s.mem, nil
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.MultiReader(&s.mem, s.file), nil
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
