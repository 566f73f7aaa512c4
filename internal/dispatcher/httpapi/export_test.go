package httpapi

import (
	"context"
	"encoding/json"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
)

// Routes returns the mux's routes that are in the OpenAPI document.
func Routes() []web.Route { return (&Server{}).routes() }

// Patterns returns the patterns of the mux's routes, for a comparison with the OpenAPI document.
func Patterns() []string {
	var out []string
	for _, r := range Routes() {
		out = append(out, r.Pattern)
	}
	return out
}

// Served returns all patterns of a server, including those outside the OpenAPI document.
func Served(s *Server) []string { return s.served }

// Findings returns the error of the findings in a check's result, from a server without an object store.
func Findings(ctx context.Context, raw json.RawMessage) error {
	_, err := (&Server{}).findings(ctx, "t", raw)
	return err
}
