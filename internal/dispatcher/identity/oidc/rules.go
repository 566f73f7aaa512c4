package oidc

import (
	"os"
	"strings"

	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
)

// Rule gives the members of a group a role in a tenant.
type Rule struct {
	Group  string
	Tenant string
	Role   identity.Role
}

// ReadRules reads "group=tenant" or "group=tenant:ROLE" pairs, separated by commas or lines.
// Without a role, members are submitters. "@FILE" reads pairs from a file, one per line. Lines that
// start with # are comments, and group names may contain commas. The error wraps job.ErrInvalid.
func ReadRules(text string) ([]Rule, error) {
	separators := ",\n\r"
	if path, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, job.Invalid("groups", "cannot be read: %v", err)
		}
		text, separators = string(b), "\n\r"
	}
	var out []Rule
	for i, pair := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		if pair = strings.TrimSpace(pair); pair == "" || pair[0] == '#' {
			continue
		}
		rule, ok := parseRule(pair)
		if !ok {
			return nil, job.Invalid("groups", "entry %d, %.80q, must be GROUP=TENANT or GROUP=TENANT:ROLE, the tenant of letters, digits, - and _, the role one of %s",
				i+1, pair, strings.Join(identity.RoleNames(), ", "))
		}
		out = append(out, rule)
	}
	if len(out) == 0 {
		return nil, job.Invalid("groups", "are empty: every user would be rejected")
	}
	return out, nil
}

// parseRule reads one pair. Group names may contain =, tenant names do not.
func parseRule(pair string) (r Rule, ok bool) {
	at := strings.LastIndexByte(pair, '=')
	if at < 1 {
		return r, false
	}
	tenant, role, given := strings.Cut(strings.TrimSpace(pair[at+1:]), ":")
	r = Rule{Group: strings.TrimSpace(pair[:at]), Tenant: tenant, Role: identity.Submitter}
	if given {
		var err error
		if r.Role, err = identity.ParseRole(role); err != nil {
			return r, false
		}
	}
	return r, r.Group != "" && identity.ValidName(tenant)
}
