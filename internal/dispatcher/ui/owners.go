package ui

import (
	"net/url"

	"github.com/assay-run/assay/internal/dispatcher/identity"
)

// allTenants selects the rows of every tenant in a request to the API.
const allTenants = "*"

// owners selects the tenants of a list. Operators see the rows of all tenants or of a chosen one, but can open only their own.
// Other visitors have the zero value: the list has only their own tenant.
type owners struct {
	Own    string // the visitor's tenant; empty: all rows are of it, and the tenant is not shown
	Chosen string // empty: all tenants
}

// ownersOf selects the tenants of a list, from the page's own address, and adds them to the request q.
func (v *visit) ownersOf(q url.Values) owners {
	if v.who.Role < identity.Operator {
		return owners{}
	}
	o := owners{Own: v.who.Tenant, Chosen: v.r.URL.Query().Get("tenant")}
	q.Set("tenant", o.Chosen)
	if o.Chosen == "" {
		q.Set("tenant", allTenants)
	}
	return o
}

// keep adds the choice to the address of the next page.
func (o owners) keep(q url.Values) {
	if o.Chosen != "" {
		q.Set("tenant", o.Chosen)
	}
}

// Opens reports whether the visitor can open the rows of a tenant.
func (o owners) Opens(tenant string) bool { return o.Own == "" || tenant == "" || tenant == o.Own }
