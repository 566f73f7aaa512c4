package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/pkg/object"
)

// maxBlob is the largest input, in bytes.
const maxBlob = 2 << 30

// putBlob stores an input under its SHA-256, so that several jobs of its tenant can use it.
func (s *Server) putBlob(w http.ResponseWriter, r *http.Request) error {
	want := r.PathValue("digest")
	if _, err := object.BlobKey(web.Tenant(r), want); err != nil {
		return err
	}
	body, err := web.OpenBody(w, r, maxBlob)
	if err != nil {
		return err
	}
	counted := &web.Spooled{Reader: body, Claim: share.Claim{Pot: s.spool, Tenant: web.Tenant(r)}}
	defer counted.Claim.Release()
	checked := &digestReader{r: counted, sum: sha256.New(), want: want}
	if _, _, err := s.Objects.PutBlob(r.Context(), web.Tenant(r), checked, maxBlob); err != nil {
		return fmt.Errorf("store blob: %w", err)
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

func (s *Server) headBlob(w http.ResponseWriter, r *http.Request) error {
	info, err := s.Objects.StatBlob(r.Context(), web.Tenant(r), r.PathValue("digest"))
	if err != nil {
		return fmt.Errorf("stat blob: %w", err)
	}
	w.Header().Set("Content-Length", strconv.FormatInt(info.Bytes, 10))
	w.WriteHeader(http.StatusOK)
	return nil
}

// digestReader returns an error instead of io.EOF if the data does not match the digest, so that nothing is stored.
type digestReader struct {
	r    io.Reader
	sum  hash.Hash
	want string
}

func (d *digestReader) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	d.sum.Write(p[:n])
	if err == io.EOF {
		if got := "sha256:" + hex.EncodeToString(d.sum.Sum(nil)); got != d.want {
			return n, fmt.Errorf("%w: the body is %s", api.ErrMismatch, got)
		}
		return n, err
	}
	if err != nil {
		return n, web.ReadError(err)
	}
	return n, nil
}
