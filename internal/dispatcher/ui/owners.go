package ui

import (
	"net/url"

	"github.com/assay-run/assay/internal/dispatcher/identity"
)

// allTenants selects the rows of every tenant in a request to the API.
const allTenants = "*"

// owners are the tenants of a list's rows. Operators see the rows of all tenants, or of one that they choose. They cannot open
// those of other tenants. The zero value is the list of a visitor who sees only the own tenant.
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

// Opens reports whether the visitor may open a row of a tenant.
func (o owners) Opens(tenant string) bool { return o.Own == "" || tenant == "" || tenant == o.Own }
