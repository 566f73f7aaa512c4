package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/files"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
)

// artifacts returns the artifacts of a finished job; none while it runs.
func (s *Server) artifacts(r *http.Request) (job.ID, []job.Artifact, error) {
	id, err := web.ID(r)
	if err != nil {
		return "", nil, err
	}
	raw, err := s.Store.Result(r.Context(), web.Tenant(r), id)
	if errors.Is(err, job.ErrNotFound) {
		// The job may be unknown or unfinished.
		if _, err := s.Store.Job(r.Context(), web.Tenant(r), id); err != nil {
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
	files.Served("jobs", id, found)
	out.Artifacts = append(out.Artifacts, found...)
	return web.WriteJSON(w, http.StatusOK, out)
}

func (s *Server) getArtifact(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable") // an error overrides it
	return s.serveArtifact(w, r)
}

func (s *Server) serveArtifact(w http.ResponseWriter, r *http.Request) error {
	id, found, err := s.artifacts(r)
	if err != nil {
		return err
	}
	return s.files.ServeArtifact(w, r, "job", id, found)
}
