package httpapi

import (
	"errors"
	"io"
	"math"
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/admin"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
)

// transferOf reads a request about a tenant that moves.
func transferOf(r *http.Request) (t admin.Transfer, err error) {
	t = admin.Transfer{Tenant: r.PathValue("tenant"), Key: r.Header.Get(api.HeaderTransferKey), Reason: r.URL.Query().Get("reason")}
	if !identity.ValidName(t.Tenant) {
		err = job.Invalid("tenant", "%.80q must be 1 to 63 letters, digits, - and _", t.Tenant)
	}
	return t, err
}

// exportTenant streams the file of a tenant.
func (s *Server) exportTenant(w http.ResponseWriter, r *http.Request) error {
	t, err := transferOf(r)
	if err != nil {
		return err
	}
	out := web.Patient(w)
	defer out.Done()
	return s.Admin.ExportTenant(r.Context(), whoOf(r), t, func() io.Writer {
		w.Header().Set("Content-Type", api.NDJSON)
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusOK)
		return out
	})
}

// importTenant imports the file in the body.
func (s *Server) importTenant(w http.ResponseWriter, r *http.Request) error {
	t, err := transferOf(r)
	if err != nil {
		return err
	}
	if m := web.MediaType(r); m != api.NDJSON {
		return job.Invalid("Content-Type", "%.60q must be application/x-ndjson", m)
	}
	body, err := web.OpenBody(w, r, math.MaxInt64)
	if err != nil {
		return err
	}
	done, err := s.Admin.ImportTenant(r.Context(), whoOf(r), t, bodyReader{body})
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, done)
}

// bodyReader is a body whose errors are errors of its client.
type bodyReader struct{ io.Reader }

func (b bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = web.ReadError(err)
	}
	return n, err
}
