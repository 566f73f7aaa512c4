package httpapi

import (
	"net/http"

	"github.com/assay-run/assay/internal/httpapi/web"
)

// mcpPattern is where agents have tools. It is no operation of the API: what a tool does, it does
// by way of operations, as whoever called it.
const mcpPattern = "POST /mcp"

// serveMCP answers one message of the Model Context Protocol.
func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) error {
	body, err := web.ReadBody(w, r, web.MaxBody)
	if err != nil {
		return err
	}
	s.agents.Serve(w, r, web.Closing(r.Context()), web.Tenant(r), body)
	return nil
}
