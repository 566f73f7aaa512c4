// Package web has the parts that all routes of the API share: reading bodies and queries, writing responses and problem
// documents, long polls, and timeouts for stalled peers. It is independent of particular routes.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/share"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// MaxBody is the largest body of one JSON object. It exceeds the largest job, so that the error for a job that is
	// slightly too large can name the field.
	MaxBody = 4 * int64(job.MaxSpec)
	// MaxBatchBody is the largest batch as one JSON object. Limits.Batch limits NDJSON.
	MaxBatchBody = 64 << 20
	// maxWindow is the largest window of a zstd body, as RFC 9659 allows.
	maxWindow = 8 << 20
	// maxAnnounced is the most memory allocated for a body before it arrives.
	maxAnnounced = 2 << 20
	maxKey       = 255
	// MaxPage is the longest page of a list.
	MaxPage = 1000
)

// OpenBody returns the request's body, decompressed. Both the compressed and the decompressed body are limited to limit
// bytes, because a decompression bomb is small when compressed.
func OpenBody(w http.ResponseWriter, r *http.Request, limit int64) (io.Reader, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	body := http.MaxBytesReader(w, r.Body, limit)
	switch enc := r.Header.Get("Content-Encoding"); enc {
	case "", "identity":
		return body, nil
	case "gzip":
		z, err := gzip.NewReader(body)
		if errors.Is(err, api.ErrSlow) {
			return nil, err
		}
		if err != nil {
			return nil, job.Invalid("body", "is not gzip, despite Content-Encoding: %v", err)
		}
		return http.MaxBytesReader(w, z, limit), nil
	case "zstd":
		z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, job.Invalid("body", "is not zstd, despite Content-Encoding: %v", err)
		}
		return http.MaxBytesReader(w, z.IOReadCloser(), limit), nil
	default:
		return nil, job.Invalid("Content-Encoding", "%.40q is not supported; send gzip, zstd or nothing", enc)
	}
}

// ReadBody reads a body of one JSON object. It releases the memory accounted for the body at the end of the request.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := ReadBytes(w, r, limit)
	if err == nil && len(body) == 0 {
		err = job.Invalid("body", "is empty")
	}
	return body, err
}

// ReadBytes is ReadBody for a body that may be empty.
func ReadBytes(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := OpenBody(w, r, limit)
	if err != nil {
		return nil, err
	}
	body = &remembered{Reader: body, claim: &callerOf(r).Memory}
	var b bytes.Buffer
	if r.Header.Get("Content-Encoding") == "" {
		b.Grow(int(min(max(r.ContentLength, 0), maxAnnounced)) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(body); err != nil {
		return nil, ReadError(err)
	}
	return b.Bytes(), nil
}

// remembered accounts for the memory of a body. It does not count the second copy while a buffer grows, nor the decoded
// value of about the same size.
type remembered struct {
	io.Reader
	claim *share.Claim
	n     int64
}

func (b *remembered) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.n += int64(n); b.n > freeMemory {
		if gerr := b.claim.Grow(b.n, memoryStep); gerr != nil {
			return 0, gerr
		}
	}
	return n, err
}

// ReadError maps an error of reading the body to an error of the client.
func ReadError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge), errors.Is(err, api.ErrSlow), errors.Is(err, job.ErrTooMany), errors.Is(err, job.ErrUnavailable):
		return err
	}
	return job.Invalid("body", "cannot be read: %v", err)
}

// MediaType returns the request's media type without parameters.
func MediaType(r *http.Request) string {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// ReadJSON decodes the request's JSON of at most limit bytes into into.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	if err := WantJSON(r); err != nil {
		return err
	}
	raw, err := ReadBody(w, r, limit)
	if err != nil {
		return err
	}
	return job.Decode(raw, "", into)
}

// WantType rejects bodies of POST requests with media types that browsers send cross-site without a preflight. No
// operation accepts these types.
func WantType(r *http.Request) error {
	if r.Method != http.MethodPost || r.ContentLength == 0 {
		return nil
	}
	switch t := MediaType(r); {
	case t == "" && r.ContentLength < 0:
		r.Body = &untyped{r.Body} // the body may be empty
	case t == "", t == "text/plain", t == "application/x-www-form-urlencoded", t == "multipart/form-data":
		return job.Invalid("Content-Type", "%.60q must be application/json, or application/x-ndjson for lines", t)
	}
	return nil
}

// WantJSON rejects bodies with another media type or none.
func WantJSON(r *http.Request) error {
	t := MediaType(r)
	switch {
	case t == "" && r.ContentLength == 0:
		return nil // no body
	case t == "" && r.ContentLength < 0:
		r.Body = &untyped{r.Body} // the body may be empty
		return nil
	}
	if t != api.JSON && !strings.HasSuffix(t, "+json") {
		return job.Invalid("Content-Type", "%.60q must be application/json", t)
	}
	return nil
}

// untyped is the body of a request without Content-Type. It must be empty.
type untyped struct{ io.ReadCloser }

func (u *untyped) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if n > 0 {
		return 0, errors.New("it needs the Content-Type application/json")
	}
	return n, err
}

// Idempotency returns the request's key. Its hash covers the route and the request, so that a key cannot be reused for
// another request.
func Idempotency(r *http.Request, body []byte) (store.Idempotency, error) {
	key, err := IdempotencyKey(r)
	if key == "" || err != nil {
		return store.Idempotency{}, err
	}
	return store.Idempotency{Key: key, Hash: RequestHash(r, sha256.Sum256(body))}, nil
}

// IdempotencyKey returns the request's key, or "" if it has none.
func IdempotencyKey(r *http.Request) (string, error) {
	key := r.Header.Get(api.HeaderIdempotencyKey)
	if len(key) > maxKey || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "", job.Invalid(api.HeaderIdempotencyKey, "must be at most %d printable ASCII characters", maxKey)
	}
	return key, nil
}

// RequestHash returns a hash of the request. body is the SHA-256 of its body. Equal requests have equal hashes.
func RequestHash(r *http.Request, body [sha256.Size]byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n%s\n%s\n", r.Method, r.URL.Path, r.URL.Query().Encode(), MediaType(r))
	if held := Identity(r).Held; held != (identity.Held{}) { // the restrictions of the key are part of the request
		fmt.Fprintf(h, "%q %q\n", held.Label, held.Policy)
	}
	h.Write(body[:])
	return hex.EncodeToString(h.Sum(nil))
}

// ContentDigest returns the SHA-256 of Content-Digest (RFC 9530). ok is false if there is none.
func ContentDigest(r *http.Request) (sum [sha256.Size]byte, ok bool, err error) {
	text := r.Header.Get(api.HeaderContentDigest)
	for part := range strings.SplitSeq(text, ",") {
		value, found := strings.CutPrefix(strings.TrimSpace(part), "sha-256=:")
		if !found {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(value, ":"))
		if err != nil || len(raw) != len(sum) {
			return sum, false, job.Invalid(api.HeaderContentDigest, "must look like sha-256=:BASE64:")
		}
		return [sha256.Size]byte(raw), true, nil
	}
	return sum, false, nil
}
