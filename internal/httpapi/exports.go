package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/queue"
)

// maxExport is the largest list of artifacts that is read, in bytes: that of as many files
// as a policy may name, with the longest paths.
const maxExport = 256 << 20

// exportSession keeps the files of a session that its policy names, as they are now.
func (s *Server) exportSession(w http.ResponseWriter, r *http.Request) error {
	if _, _, err := s.callSession(r, queue.SessionCall{Op: queue.SessionExport}); err != nil {
		return err
	}
	return s.listExported(w, r)
}

// shownExport is an export as clients see it: with addresses, and without where we keep it.
func shownExport(id job.ID, e *job.Export) *job.Export {
	out := &job.Export{Artifacts: append([]job.Artifact{}, e.Artifacts...), Feedback: e.Feedback, ExportedAt: e.ExportedAt}
	served("sessions", id, out.Artifacts)
	return out
}

// exported reads what a session has exported last, whether it lives or not.
func (s *Server) exported(r *http.Request) (job.ID, *job.Export, error) {
	id, err := idParam(r)
	if err != nil {
		return "", nil, err
	}
	if _, err := s.Store.Session(r.Context(), tenantOf(r), id); err != nil {
		return "", nil, fmt.Errorf("read session: %w", err)
	}
	key, err := object.ExportKey(tenantOf(r), id)
	if err != nil {
		return "", nil, err
	}
	body, _, err := s.Objects.Get(r.Context(), key)
	if errors.Is(err, job.ErrNotFound) {
		return id, &job.Export{}, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("read the artifacts of session %s: %w", id, err)
	}
	defer body.Close()
	var out job.Export
	if err := json.NewDecoder(io.LimitReader(body, maxExport)).Decode(&out); err != nil {
		return "", nil, fmt.Errorf("%w: read the artifacts of session %s: %w", job.ErrUnavailable, id, err)
	}
	return id, &out, nil
}

func (s *Server) listExported(w http.ResponseWriter, r *http.Request) error {
	id, found, err := s.exported(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, shownExport(id, found))
}

func (s *Server) getExported(w http.ResponseWriter, r *http.Request) error {
	id, found, err := s.exported(r)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "private, no-cache") // the next export may have another of the name
	return s.serveArtifact(w, r, "session", id, found.Artifacts)
}
