package dropin

import (
	"net/http"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/httpapi/web"
)

// retried has an error of ours, or of the moment, be a 504, after which clients send a request again: verl does so after
// no other status. What is wrong with the request itself stays as it is.
func retried(p api.ProblemDetails) api.ProblemDetails {
	if p.Status == http.StatusTooManyRequests || p.Status >= http.StatusInternalServerError {
		p.Status = http.StatusGatewayTimeout
	}
	return p
}

// failFusion answers as SandboxFusion does: its errors have a detail.
func failFusion(w http.ResponseWriter, p api.ProblemDetails) { web.WriteProblem(w, retried(p)) }

// failPiston answers as Piston does.
func failPiston(w http.ResponseWriter, p api.ProblemDetails) {
	p = retried(p)
	_ = web.WriteJSON(w, p.Status, map[string]string{"message": p.Detail}) // it can be encoded
}
