package httpapi

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

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// maxBody is the largest body of one JSON object that is read at all. It is
	// above the largest job, so that a job somewhat too large is told which of
	// its fields is.
	maxBody = 4 * int64(job.MaxSpec)
	// maxBatchBody is the largest batch as one JSON object; of NDJSON, the operator
	// says (Limits.Batch).
	maxBatchBody = 64 << 20
	// maxAnnounced is for how much of a body there is room made before it arrives.
	maxAnnounced = 2 << 20
	maxKey       = 255
)

// openBody returns the request's body, decompressed; at most limit bytes of it,
// both before and after (a bomb is small before).
func openBody(w http.ResponseWriter, r *http.Request, limit int64) (io.Reader, error) {
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
			return nil, job.Invalid("body", "is not gzip, though Content-Encoding says so: %v", err)
		}
		return http.MaxBytesReader(w, z, limit), nil
	default:
		return nil, job.Invalid("Content-Encoding", "%.40q is not supported; send gzip or nothing", enc)
	}
}

// readBody reads a body of one JSON object. What it takes of the memory for bodies
// is given back when the request is over.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := readBytes(w, r, limit)
	if err == nil && len(body) == 0 {
		err = job.Invalid("body", "is empty")
	}
	return body, err
}

// readBytes is readBody for a body that may be empty.
func readBytes(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := openBody(w, r, limit)
	if err != nil {
		return nil, err
	}
	body = &remembered{Reader: body, claim: &callerOf(r).memory}
	var b bytes.Buffer
	if r.Header.Get("Content-Encoding") == "" {
		b.Grow(int(min(max(r.ContentLength, 0), maxAnnounced)) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(body); err != nil {
		return nil, readError(err)
	}
	return b.Bytes(), nil
}

// remembered counts what is read of a body into memory. A buffer that grows has the
// old one beside it for a moment, and what is decoded of it is about as large again.
type remembered struct {
	io.Reader
	claim *claim
	n     int64
}

func (b *remembered) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.n += int64(n); b.n > freeMemory {
		if gerr := b.claim.grow(b.n, memoryStep); gerr != nil {
			return 0, gerr
		}
	}
	return n, err
}

// readError judges a failure to read the client's body: it is the client's.
func readError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge), errors.Is(err, api.ErrSlow), errors.Is(err, job.ErrTooMany), errors.Is(err, job.ErrUnavailable):
		return err
	}
	return job.Invalid("body", "cannot be read: %v", err)
}

// mediaType returns the request's media type without parameters.
func mediaType(r *http.Request) string {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// wantJSON refuses other media types; none at all is taken for JSON.
func wantJSON(r *http.Request) error {
	if t := mediaType(r); t != "" && t != api.JSON && !strings.HasSuffix(t, "+json") {
		return job.Invalid("Content-Type", "%.60q must be application/json", t)
	}
	return nil
}

// idempotency reads the request's key. Its hash covers what is asked of which
// route, so that one key cannot name two different requests.
func idempotency(r *http.Request, body []byte) (store.Idempotency, error) {
	key, err := idempotencyKey(r)
	if key == "" || err != nil {
		return store.Idempotency{}, err
	}
	return store.Idempotency{Key: key, Hash: requestHash(r, sha256.Sum256(body))}, nil
}

func idempotencyKey(r *http.Request) (string, error) {
	key := r.Header.Get(api.HeaderIdempotencyKey)
	if len(key) > maxKey || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "", job.Invalid(api.HeaderIdempotencyKey, "must be at most %d printable ASCII characters", maxKey)
	}
	return key, nil
}

func requestHash(r *http.Request, body [sha256.Size]byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n%s\n%s\n", r.Method, r.URL.Path, r.URL.Query().Encode(), mediaType(r))
	h.Write(body[:])
	return hex.EncodeToString(h.Sum(nil))
}

// contentDigest reads the sha256 of Content-Digest (RFC 9530); ok is false if
// there is none.
func contentDigest(r *http.Request) (sum [sha256.Size]byte, ok bool, err error) {
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
