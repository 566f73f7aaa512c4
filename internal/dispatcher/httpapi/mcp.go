package httpapi

import (
	"net/http"

	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
)

// mcpPattern is the route of tools for agents. It is not an operation of the API: tools call operations with the
// caller's rights.
const mcpPattern = "POST /mcp"

// serveMCP handles one message of the Model Context Protocol.
func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) error {
	body, err := web.ReadBody(w, r, web.MaxBody)
	if err != nil {
		return err
	}
	s.agents.Serve(w, r, web.Closing(r.Context()), web.Tenant(r), body)
	return nil
}
