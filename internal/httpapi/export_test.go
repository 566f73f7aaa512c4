package httpapi

import "github.com/assay-run/assay/internal/httpapi/web"

// Routes are those of the mux that are in the OpenAPI document.
func Routes() []web.Route { return (&Server{}).routes() }

// Patterns lists the routes of the mux, for the test that holds them against
// the OpenAPI document.
func Patterns() []string {
	var out []string
	for _, r := range Routes() {
		out = append(out, r.Pattern)
	}
	return out
}

// Served returns all patterns that a server answers, those beside the OpenAPI document included.
func Served(s *Server) []string { return s.served }
