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
	"os"
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
	// maxBatchBody is the largest batch as one JSON object; NDJSON has no limit.
	maxBatchBody = 64 << 20
	// maxAnnounced is for how much of a body there is room made before it arrives.
	maxAnnounced = 2 << 20
	maxKey       = 255
)

// openBody returns the request's body, decompressed; at most limit bytes of it
// if limit is not 0, both before and after (a bomb is small before).
func openBody(w http.ResponseWriter, r *http.Request, limit int64) (io.Reader, error) {
	body := r.Body
	if limit > 0 {
		body = http.MaxBytesReader(w, body, limit)
	}
	switch enc := r.Header.Get("Content-Encoding"); enc {
	case "", "identity":
		return body, nil
	case "gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, job.Invalid("body", "is not gzip, though Content-Encoding says so: %v", err)
		}
		if limit > 0 {
			return http.MaxBytesReader(w, z, limit), nil
		}
		return z, nil
	default:
		return nil, job.Invalid("Content-Encoding", "%.40q is not supported; send gzip or nothing", enc)
	}
}

// readBody reads a body of one JSON object.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := openBody(w, r, limit)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if r.Header.Get("Content-Encoding") == "" {
		b.Grow(int(min(max(r.ContentLength, 0), maxAnnounced)) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(body); err != nil {
		return nil, readError(err)
	}
	if b.Len() == 0 {
		return nil, job.Invalid("body", "is empty")
	}
	return b.Bytes(), nil
}

// readError judges a failure to read the client's body: it is the client's.
func readError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return job.Invalid("body", "stood still for %s", stallLimit)
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
