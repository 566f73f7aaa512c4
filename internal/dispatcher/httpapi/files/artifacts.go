// Package files serves files of jobs and sessions: artifacts and large outputs from the object store, links to them, and
// the output of running jobs.
// Programs wrote them, so they are untrusted.
package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// Objects reads objects. *object.Store implements it.
type Objects interface {
	Get(ctx context.Context, key string) (io.ReadCloser, object.Info, error)
	GetRange(ctx context.Context, key string, offset, n int64) (io.ReadCloser, object.Info, error)
}

// Files serves files from the object store.
type Files struct{ Objects Objects }

// artifactURL returns the API address of an artifact. kind is "jobs" or "sessions".
func artifactURL(kind string, id job.ID, name string) string {
	u := url.URL{Path: "/v1/" + kind + "/" + string(id) + "/artifacts/" + strings.TrimPrefix(name, "/")}
	return u.EscapedPath()
}

// Served sets the API addresses of artifacts and clears their internal object names.
func Served(kind string, id job.ID, all []job.Artifact) {
	for i := range all {
		all[i].URL, all[i].Object = artifactURL(kind, id, all[i].Path), ""
	}
}

// ServeArtifact streams the artifact of the path, if found has it. A program wrote it, so a browser must neither guess
// its type nor render it in the API's origin.
func (f *Files) ServeArtifact(w http.ResponseWriter, r *http.Request, kind string, id job.ID, found []job.Artifact) error {
	name := "/" + r.PathValue("path")
	var a *job.Artifact
	var err error
	for i := range found {
		if found[i].Path == name {
			a = &found[i]
		}
	}
	if a == nil {
		w.Header().Del("Cache-Control")
		return web.NotFound("%s %s has no artifact %q", kind, id, name)
	}
	h := w.Header()
	h.Set("ETag", `"sha256:`+a.SHA256+`"`)
	if r.Header.Get("If-None-Match") == h.Get("ETag") {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", safeMediaType(a.MediaType))
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	if r.Header.Get("Range") != "" {
		err = f.serveRange(w, r, id, a)
	} else {
		err = f.serveWhole(w, r, id, a)
	}
	if err != nil {
		return fmt.Errorf("open artifact %q: %w", name, err)
	}
	return nil
}

// serveWhole streams an artifact. It verifies the content against the record; on a mismatch the response breaks off.
func (f *Files) serveWhole(w http.ResponseWriter, r *http.Request, id job.ID, a *job.Artifact) error {
	body, info, err := f.OpenArtifact(r.Context(), web.Tenant(r), id, a)
	if err != nil {
		return unserved(w, err)
	}
	defer body.Close()
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Content-Length", strconv.FormatInt(info.Bytes, 10))
	w.WriteHeader(http.StatusOK)
	return web.StreamTo(w, body)
}

// serveRange serves ranges of an artifact. It reads only these ranges from the object store.
func (f *Files) serveRange(w http.ResponseWriter, r *http.Request, id job.ID, a *job.Artifact) error {
	key, err := artifactKey(web.Tenant(r), id, a)
	if err != nil {
		return unserved(w, err)
	}
	body, err := f.openRange(r.Context(), key, a.Bytes)
	if err != nil {
		return unserved(w, err)
	}
	defer body.Close()
	slow := web.Patient(w)
	defer slow.Done()
	http.ServeContent(slow, r, "", time.Time{}, body)
	return nil
}

// unserved removes the headers of a file that could not be served.
func unserved(w http.ResponseWriter, err error) error {
	for _, name := range []string{"ETag", "Cache-Control", "Content-Disposition"} {
		w.Header().Del(name)
	}
	return err
}

// artifactKey returns the object of an artifact. It rejects objects that no attempt of this job stored, because the
// record comes from a worker.
func artifactKey(tenant string, id job.ID, a *job.Artifact) (string, error) {
	_, _, lease, ok := object.AttemptOf(a.Object)
	own, err := object.AttemptPrefix(tenant, id, lease)
	if !ok || err != nil || !strings.HasPrefix(a.Object, own) {
		return "", fmt.Errorf("%w: the record names an object of another job", job.ErrNotFound)
	}
	return a.Object, nil
}

// OpenArtifact opens an artifact that an attempt of the job stored. If the content does not match the record, the
// reader ends with an error before its last bytes.
func (f *Files) OpenArtifact(ctx context.Context, tenant string, id job.ID, a *job.Artifact) (io.ReadCloser, object.Info, error) {
	key, err := artifactKey(tenant, id, a)
	if err != nil {
		return nil, object.Info{}, err
	}
	body, info, err := f.Objects.Get(ctx, key)
	if err != nil {
		return nil, info, err
	}
	return Checked(body, a.SHA256), info, nil
}

// checkedReader holds back the last read bytes until more arrive, or until the whole content is verified.
type checkedReader struct {
	io.ReadCloser
	sum  hash.Hash
	want string
	held []byte
	next []byte
	good bool // all of it was read and verified
}

// Checked returns a reader of body that verifies its SHA-256. On a mismatch it ends with an error before its last
// bytes.
func Checked(body io.ReadCloser, sha string) io.ReadCloser {
	return &checkedReader{ReadCloser: body, sum: sha256.New(), want: sha}
}

func (c *checkedReader) Read(p []byte) (int, error) {
	for {
		if len(c.next) > 0 {
			n := copy(p, c.next)
			c.next = c.next[n:]
			return n, nil
		}
		buf := make([]byte, 32<<10)
		n, err := c.ReadCloser.Read(buf)
		c.sum.Write(buf[:n])
		switch {
		case n > 0:
			c.next, c.held = c.held, buf[:n]
		case err == io.EOF && !c.good:
			if hex.EncodeToString(c.sum.Sum(nil)) != c.want {
				return 0, fmt.Errorf("%w: the object differs from its record", job.ErrUnavailable)
			}
			c.next, c.held, c.good = c.held, nil, true
		case err != nil:
			return 0, err
		}
	}
}

// safeMediaType returns a well-formed media type unchanged, and application/octet-stream for others.
func safeMediaType(t string) string {
	if _, _, err := mime.ParseMediaType(t); err != nil {
		return "application/octet-stream"
	}
	return t
}
