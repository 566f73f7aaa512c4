package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
)

var (
	deleteJob = action{Name: "Delete job", Question: "Delete job %s?", Note: "This deletes its program, result and files for everyone.", Danger: true, role: identity.Admin,
		method: http.MethodDelete, path: "/v1/jobs/%s",
		said: func(id string, _ []byte) string { return "Job " + id + " is deleted." },
		next: func(string, []byte) string { return "/ui/jobs" }}
	deleteBatch = action{Name: "Delete batch", Question: "Delete batch %s and all of its jobs?", Note: "This deletes their programs, results and files for everyone.", Danger: true, role: identity.Admin,
		method: http.MethodDelete, path: "/v1/batches/%s",
		said: func(id string, _ []byte) string { return "Batch " + id + " and its jobs are deleted." },
		next: func(string, []byte) string { return "/ui/batches" }}
)

// linkArtifact makes a link to a file that works without a key.
var linkArtifact = action{Name: "Make link", Question: "Make a link to a file of job %s?", Note: "Anyone with the link can read this file without a key until it expires. The link cannot be revoked.", role: identity.Reader,
	fields: []field{{Name: "path", Kind: "hidden"}, {Name: "expires_in", Label: "Valid for", Kind: "text", Value: "1h", Hint: "such as 10m or 1h; at most 168h"}},
	method: http.MethodPost, path: "/v1/jobs/%s/links", load: loadLink, once: showLink,
	wrong: func(subject string, f url.Values) error {
		if err := wrongDuration(subject, url.Values{"for": f["expires_in"]}); err != nil {
			return job.Invalid("expires_in", "%.40q must be a time such as 10m or 1h", f.Get("expires_in"))
		}
		return nil
	},
	body: func(_ string, f url.Values) any {
		return map[string]string{"path": f.Get("path"), "expires_in": strings.TrimSpace(f.Get("expires_in"))}
	}}

func loadLink(v *visit, p *confirmPage) error {
	p.Question = fmt.Sprintf("Make a link to %s?", display.Line(v.r.FormValue("path"), 300))
	return nil
}

func showLink(v *visit, _ string, raw []byte, p *oncePage) error {
	var made api.Link
	if err := json.Unmarshal(raw, &made); err != nil {
		return fmt.Errorf("read the new link: %w", err)
	}
	at := url.URL{Scheme: "http", Host: v.r.Host, Path: made.URL}
	if v.s.Secure || v.r.TLS != nil {
		at.Scheme = "https"
	}
	p.Said = fmt.Sprintf("The link is valid until %s (UTC).", display.Time(made.ExpiresAt))
	p.Label, p.Value, p.Note = "Link", at.String(), "It is not shown again. Its user needs no key."
	return nil
}
