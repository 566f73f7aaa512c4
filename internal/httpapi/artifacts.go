package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// artifacts returns what a finished job left behind; none while it runs.
func (s *Server) artifacts(r *http.Request) (job.ID, []job.Artifact, error) {
	id, err := idParam(r)
	if err != nil {
		return "", nil, err
	}
	raw, err := s.Store.Result(r.Context(), tenantOf(r), id)
	if errors.Is(err, job.ErrNotFound) {
		// Either there is no such job, or it has not ended.
		if _, err := s.Store.Job(r.Context(), tenantOf(r), id); err != nil {
			return "", nil, fmt.Errorf("read job %s: %w", id, err)
		}
		return id, nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("read result: %w", err)
	}
	var res struct {
		Artifacts []job.Artifact `json:"artifacts"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return "", nil, fmt.Errorf("decode the recorded result of job %s: %w", id, err)
	}
	return id, res.Artifacts, nil
}

func (s *Server) listArtifacts(w http.ResponseWriter, r *http.Request) error {
	id, found, err := s.artifacts(r)
	if err != nil {
		return err
	}
	out := api.ArtifactList{Artifacts: []job.Artifact{}}
	served("jobs", id, found)
	out.Artifacts = append(out.Artifacts, found...)
	return writeJSON(w, http.StatusOK, out)
}

// artifactURL is where the API serves an artifact of one of the jobs or sessions.
func artifactURL(kind string, id job.ID, name string) string {
	u := url.URL{Path: "/v1/" + kind + "/" + string(id) + "/artifacts/" + strings.TrimPrefix(name, "/")}
	return u.EscapedPath()
}

func (s *Server) getArtifact(w http.ResponseWriter, r *http.Request) error {
	id, found, err := s.artifacts(r)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	return s.serveArtifact(w, r, "job", id, found)
}

// serveArtifact streams one of the files that were found. It is whatever a program wrote,
// so a browser must neither guess its type nor render it in our origin.
func (s *Server) serveArtifact(w http.ResponseWriter, r *http.Request, kind string, id job.ID, found []job.Artifact) error {
	name := "/" + r.PathValue("path")
	var a *job.Artifact
	for i := range found {
		if found[i].Path == name {
			a = &found[i]
		}
	}
	if a == nil {
		w.Header().Del("Cache-Control")
		return notFound("%s %s has no artifact %q", kind, id, name)
	}
	h := w.Header()
	h.Set("ETag", `"sha256:`+a.SHA256+`"`)
	if r.Header.Get("If-None-Match") == h.Get("ETag") {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body, info, err := s.openArtifact(r, id, a)
	if err != nil {
		h.Del("ETag")
		h.Del("Cache-Control")
		return fmt.Errorf("open artifact %q: %w", name, err)
	}
	defer body.Close()
	h.Set("Content-Type", safeMediaType(a.MediaType))
	h.Set("Content-Length", strconv.FormatInt(info.Bytes, 10))
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	w.WriteHeader(http.StatusOK)
	return streamTo(w, body)
}

// openArtifact opens what an attempt of the job stored, and nothing else: the record
// is the word of a worker. What the reader yields is what the record says, or it
// ends with an error before its last bytes.
func (s *Server) openArtifact(r *http.Request, id job.ID, a *job.Artifact) (io.ReadCloser, object.Info, error) {
	_, _, lease, ok := object.AttemptOf(a.Object)
	own, err := object.AttemptPrefix(tenantOf(r), id, lease)
	if !ok || err != nil || !strings.HasPrefix(a.Object, own) {
		return nil, object.Info{}, fmt.Errorf("%w: the record names an object of another job", job.ErrNotFound)
	}
	body, info, err := s.Objects.Get(r.Context(), a.Object)
	if err != nil {
		return nil, info, err
	}
	return &checkedReader{ReadCloser: body, sum: sha256.New(), want: a.SHA256}, info, nil
}

// checkedReader holds the bytes of one read back until more have come, or until all
// of them are known to be the ones that were promised.
type checkedReader struct {
	io.ReadCloser
	sum  hash.Hash
	want string
	held []byte
	next []byte
	good bool // all of it was read, and is right
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
				return 0, fmt.Errorf("%w: the object is not what the record says", job.ErrUnavailable)
			}
			c.next, c.held, c.good = c.held, nil, true
		case err != nil:
			return 0, err
		}
	}
}

// safeMediaType passes a well-formed media type on.
func safeMediaType(t string) string {
	if _, _, err := mime.ParseMediaType(t); err != nil {
		return "application/octet-stream"
	}
	return t
}
