package httpapi

// Patterns lists the routes of the mux, for the test that holds them against
// the OpenAPI document.
func Patterns() []string {
	var out []string
	for _, r := range (&Server{}).routes() {
		out = append(out, r.Pattern)
	}
	return out
}
