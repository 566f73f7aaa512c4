package dropin

import (
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
)

// retried turns temporary and internal errors into 504, the only status after which verl retries. Errors of the request
// are unchanged.
func retried(p api.ProblemDetails) api.ProblemDetails {
	if p.Status == http.StatusTooManyRequests || p.Status >= http.StatusInternalServerError {
		p.Status = http.StatusGatewayTimeout
	}
	return p
}

// failFusion writes an error as SandboxFusion does: with a field detail.
func failFusion(w http.ResponseWriter, p api.ProblemDetails) { web.WriteProblem(w, retried(p)) }

// failPiston writes an error as Piston does.
func failPiston(w http.ResponseWriter, p api.ProblemDetails) {
	p = retried(p)
	_ = web.WriteJSON(w, p.Status, map[string]string{"message": p.Detail}) // always encodes
}
