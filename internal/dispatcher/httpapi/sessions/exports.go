package sessions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/files"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// maxExport is the largest list of artifacts in bytes: as many files as a policy may name, with the longest paths.
const maxExport = 256 << 20

// export stores the current files of a session that its policy names.
func (h *Handlers) export(w http.ResponseWriter, r *http.Request) error {
	if _, _, err := h.call(r, control.SessionCall{Op: control.SessionExport}); err != nil {
		return err
	}
	return h.listExported(w, r)
}

// shownExport returns an export for clients: with API addresses instead of internal object names.
func shownExport(id job.ID, e *job.Export) *job.Export {
	out := &job.Export{Artifacts: append([]job.Artifact{}, e.Artifacts...), Feedback: e.Feedback, ExportedAt: e.ExportedAt}
	files.Served("sessions", id, out.Artifacts)
	return out
}

// exported reads the last export of a session, which may have ended.
func (h *Handlers) exported(r *http.Request) (job.ID, *job.Export, error) {
	id, err := web.ID(r)
	if err != nil {
		return "", nil, err
	}
	if _, err := h.Store.Session(r.Context(), web.Tenant(r), id); err != nil {
		return "", nil, fmt.Errorf("read session: %w", err)
	}
	key, err := object.ExportKey(web.Tenant(r), id)
	if err != nil {
		return "", nil, err
	}
	body, _, err := h.Objects.Get(r.Context(), key)
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

func (h *Handlers) listExported(w http.ResponseWriter, r *http.Request) error {
	id, found, err := h.exported(r)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, shownExport(id, found))
}

func (h *Handlers) getExported(w http.ResponseWriter, r *http.Request) error {
	id, found, err := h.exported(r)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "private, no-cache") // the next export may replace the file
	return h.Files.ServeArtifact(w, r, "session", id, found.Artifacts)
}
