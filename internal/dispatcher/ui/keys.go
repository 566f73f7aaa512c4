package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/store"
)

// keyRow is a key on the page.
type keyRow struct {
	store.Key
	Status, Class string
	Live          bool
}

type keysPage struct {
	Keys   []keyRow
	Tenant string
	Next   string
	More   bool
}

func (s *Server) keys(v *visit) error {
	given := v.r.URL.Query()
	p := keysPage{Tenant: given.Get("tenant"), More: given.Get("before") != ""}
	q := url.Values{"limit": {pageOfJobs}}
	for _, name := range []string{"tenant", "before"} {
		if value := given.Get(name); value != "" {
			q.Set(name, value)
		}
	}
	var list api.KeyList
	if err := v.get("/v1/keys", q, &list); err != nil {
		return err
	}
	if p.Tenant == "" {
		p.Tenant = v.who.Tenant
	}
	for _, k := range list.Keys {
		p.Keys = append(p.Keys, keyRowOf(k, s.Now()))
	}
	if list.Next != "" {
		q.Set("before", string(list.Next))
		q.Del("limit")
		p.Next = "/ui/keys?" + q.Encode()
	}
	return v.show("keys", "Keys", false, p)
}

func keyRowOf(k store.Key, now time.Time) keyRow {
	switch {
	case k.RevokedAt != nil:
		return keyRow{k, "revoked", "bad", false}
	case k.ExpiresAt != nil && !now.Before(*k.ExpiresAt):
		return keyRow{k, "expired", "off", false}
	}
	return keyRow{k, "good", "good", true}
}

// makeKey makes a key of a tenant and shows its token once.
var makeKey = action{Name: "Make key", Question: "Make a key for tenant %s?", Note: "Anyone with its token has its rights. The token is shown once.", role: identity.Submitter,
	fields: []field{{Name: "name", Label: "Name", Kind: "text", Hint: "a name to recognize the key"},
		{Name: "role", Label: "Role", Value: "submitter", Options: []string{"reader", "submitter", "operator", "admin"}, Hint: "at most your own"},
		{Name: "for", Label: "Valid for", Kind: "text", Value: "720h", Hint: "such as 12h or 720h; empty: no expiry"},
		{Name: "label", Label: "Only jobs with the label", Kind: "text", Hint: "KEY=VALUE; empty: all"},
		{Name: "policy", Label: "Only jobs with the policy", Kind: "text", Hint: "name of a stored policy; empty: any"}, reason},
	method: http.MethodPost, path: "/v1/keys", body: keyOf, once: showKey,
	wrong: func(subject string, f url.Values) error {
		if strings.TrimSpace(f.Get("for")) == "" {
			return nil
		}
		return wrongDuration(subject, f)
	}}

func keyOf(tenant string, f url.Values) any {
	body := map[string]string{"tenant": tenant, "name": strings.TrimSpace(f.Get("name")), "reason": f.Get("reason")}
	for _, name := range []string{"role", "for", "label", "policy"} {
		if value := strings.TrimSpace(f.Get(name)); value != "" {
			body[name] = value
		}
	}
	return body
}

func showKey(_ *visit, _ string, raw []byte, p *oncePage) error {
	var made api.NewKey
	if err := json.Unmarshal(raw, &made); err != nil {
		return fmt.Errorf("read the new key: %w", err)
	}
	p.Said = fmt.Sprintf("Key %s is made: %s of tenant %s, with the mark %s.", display.Line(made.Key.Name, 80), made.Key.Role, made.Key.Tenant, made.Key.Mark)
	p.Label, p.Value, p.Note = "Its token", made.Token, "It is not shown again, and the database does not contain it. Store it for its user, for example in ASSAY_TOKEN."
	return nil
}

// revokeKey revokes a key.
var revokeKey = action{Name: "Revoke key", Question: "Revoke key %s?", Note: "Its token is rejected within a second. Keys that were made with it stay valid.", Danger: true, role: identity.Submitter,
	fields: []field{reason}, method: http.MethodDelete, path: "/v1/keys/%s", load: loadRevoke,
	send: func(_ *visit, _ string, f url.Values, rq *apiCall) error {
		if text := strings.TrimSpace(f.Get("reason")); text != "" {
			rq.Query = url.Values{"reason": {text}}
		}
		return nil
	},
	said: func(_ string, raw []byte) string {
		var k store.Key
		_ = json.Unmarshal(raw, &k) // if this fails, the key is still revoked
		return fmt.Sprintf("Key %s is revoked.", display.Line(k.Name, 80))
	}}

// loadRevoke names the key in the question.
func loadRevoke(v *visit, p *confirmPage) error {
	var k store.Key
	if err := v.get("/v1/keys/"+p.Subject, nil, &k); err != nil {
		return err
	}
	p.Question = fmt.Sprintf("Revoke key %s of tenant %s, with the mark %s?", display.Line(k.Name, 80), k.Tenant, k.Mark)
	return nil
}
