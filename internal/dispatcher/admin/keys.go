package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	maxKeyName = 63                         // characters
	maxKeyLife = 100 * 365 * 24 * time.Hour // effectively unlimited
	minKeyLife = time.Second                // a shorter-lived key would expire before its first use
	anyTenant  = identity.Operator          // lowest role that sees and revokes keys of every tenant
	defaultFor = identity.Submitter         // role of a key without one in the request
)

// MakeKey creates a key and returns its only copy of the token. Admins create keys of every tenant and role. Other
// callers, and admins whose own key expires, create only keys with at most their role and expiry. Below admin the
// tenant must be the caller's. It returns job.ErrRefused otherwise.
func (a *Admin) MakeKey(ctx context.Context, who identity.Identity, remote string, q api.KeyRequest) (out api.NewKey, err error) {
	k, err := newKey(who, q)
	if err != nil {
		return out, err
	}
	var hash store.KeyHash
	out.Token, hash = identity.NewKeyToken()
	_, err = a.act(ctx, whoIs(who, remote), "make key", string(k.ID), q.Reason, func(done *store.Action) (err error) {
		done.Detail, _ = json.Marshal(map[string]any{"name": k.Name, "tenant": k.Tenant, "role": k.Role, "label": k.Label, "policy": k.Policy, // cannot fail
			"mark": identity.Mark(hash), "expires_at": k.ExpiresAt})
		out.Key, err = a.Store.PutKey(ctx, done, store.LiveKey{Key: k, Hash: hash})
		return err
	})
	return out, err
}

// newKey builds the key of a request, or returns why it is rejected.
func newKey(who identity.Identity, q api.KeyRequest) (k store.Key, err error) {
	role := defaultFor
	if q.Role != "" {
		if role, err = identity.ParseRole(q.Role); err != nil {
			return k, err
		}
	}
	k = store.Key{ID: job.NewID(), Name: q.Name, Tenant: cmp.Or(q.Tenant, who.Tenant), Role: role.String(), Policy: q.Policy, CreatedBy: who.Name}
	if err := checkKey(q, k.Tenant); err != nil {
		return k, err
	}
	label, err := identity.ParseLabel(q.Label)
	if err != nil {
		return k, err
	}
	if k.Label = label.String(); label != (identity.Label{}) {
		if err := (job.Spec{Labels: map[string]string{label.Key: label.Value}, Program: job.Program{Python: &job.Python{Code: "0"}}}).Validate(); err != nil {
			return k, job.Invalid("label", "%.200q cannot be the label of a job", q.Label)
		}
	}
	if (q.Label != "" || q.Policy != "") && role > identity.Submitter {
		return k, job.Invalid("role", "a key with a label or a policy must have the role reader or submitter, not %s", role)
	}
	if q.For > 0 {
		until := time.Now().UTC().Add(q.For.D())
		k.ExpiresAt = &until
	}
	return k, mayMake(who, k, role)
}

// checkKey checks the fields that do not depend on the caller.
func checkKey(q api.KeyRequest, tenant string) error {
	switch d := q.For.D(); {
	case q.Name == "" || len([]rune(q.Name)) > maxKeyName:
		return job.Invalid("name", "must have 1 to %d characters", maxKeyName)
	case !printable(q.Name):
		return job.Invalid("name", "%.80q must be of printable characters", q.Name)
	case !identity.ValidName(tenant):
		return job.Invalid("tenant", "%.80q must be 1 to 63 letters, digits, - and _", tenant)
	case q.Policy != "" && !identity.ValidName(q.Policy):
		return job.Invalid("policy", "%.80q must be the name of a policy: 1 to 63 letters, digits, - and _", q.Policy)
	case d != 0 && (d < minKeyLife || d > maxKeyLife):
		return job.Invalid("for", "%v must be from %v to %v; leave it out for a key that is valid until revoked", d, minKeyLife, maxKeyLife)
	}
	return nil
}

func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return false
		}
	}
	return true
}

// mayMake returns job.ErrRefused for a key with more rights than its creator.
func mayMake(who identity.Identity, k store.Key, role identity.Role) error {
	switch {
	case who.Role == identity.Admin && who.Until.IsZero():
		return nil
	case who.Role < identity.Admin && k.Tenant != who.Tenant:
		return fmt.Errorf("%w: tenant: a key of another tenant is made by an admin, and this token is %s's of %s", job.ErrRefused, article(who.Role), who.Tenant)
	case role > who.Role:
		return fmt.Errorf("%w: role: %s makes no key of %s", job.ErrRefused, article(who.Role), article(role))
	case !who.Until.IsZero() && (k.ExpiresAt == nil || k.ExpiresAt.After(who.Until)):
		return fmt.Errorf("%w: for: this key expires at %s and cannot create a key that expires later", job.ErrRefused, who.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

func article(r identity.Role) string {
	if r >= identity.Operator {
		return "an " + r.String()
	}
	return "a " + r.String()
}

// Keys returns a page of a tenant's keys; the caller's tenant if none is named. It returns job.ErrRefused for another
// tenant, except to operators and admins.
func (a *Admin) Keys(ctx context.Context, who identity.Identity, tenant string, before job.ID, limit int) (api.KeyList, error) {
	if tenant = cmp.Or(tenant, who.Tenant); tenant != who.Tenant && who.Role < anyTenant {
		return api.KeyList{}, fmt.Errorf("%w: tenant: keys of another tenant are for operators, and this token is a %s's of %s", job.ErrRefused, who.Role, who.Tenant)
	}
	if tenant != who.Tenant && !identity.ValidName(tenant) {
		return api.KeyList{}, job.Invalid("tenant", "%.80q must be 1 to 63 letters, digits, - and _", tenant)
	}
	ks, err := a.Store.Keys(ctx, tenant, before, limit)
	if err != nil {
		return api.KeyList{}, fmt.Errorf("list keys: %w", err)
	}
	out := api.KeyList{Keys: append([]store.Key{}, ks...)}
	if len(ks) == limit {
		out.Next = ks[limit-1].ID
	}
	return out, nil
}

// Key returns a key of the caller's tenant, or of any tenant to operators and admins.
func (a *Admin) Key(ctx context.Context, who identity.Identity, id job.ID) (store.Key, error) {
	tenant := who.Tenant
	if who.Role >= anyTenant {
		tenant = ""
	}
	k, err := a.Store.Key(ctx, tenant, id)
	if err != nil {
		return k, fmt.Errorf("read key: %w", err)
	}
	return k, nil
}

// RevokeKey revokes a key that the caller may see. It returns job.ErrRefused if the key's role is above the caller's. Only
// an admin revokes a key of an unknown role.
func (a *Admin) RevokeKey(ctx context.Context, who identity.Identity, remote string, id job.ID, reason string) (k store.Key, err error) {
	if k, err = a.Key(ctx, who, id); err != nil {
		return k, err
	}
	switch role, err := identity.ParseRole(k.Role); {
	case err != nil && who.Role < identity.Admin:
		return k, fmt.Errorf("%w: the key has the unknown role %.40q; only an admin can revoke it", job.ErrRefused, k.Role)
	case role > who.Role:
		return k, fmt.Errorf("%w: the key is %s's, and this token %s's", job.ErrRefused, article(role), article(who.Role))
	}
	_, err = a.act(ctx, whoIs(who, remote), "revoke key", string(id), reason, func(done *store.Action) (err error) {
		done.Detail, _ = json.Marshal(map[string]string{"name": k.Name, "tenant": k.Tenant, "role": k.Role, "mark": k.Mark}) // strings always marshal
		return a.recordErasure(ctx, tombstoneKey, id, func() error {
			k, err = a.Store.RevokeKey(ctx, done, id)
			return err
		})
	})
	return k, err
}

func whoIs(who identity.Identity, remote string) Actor {
	return Actor{Name: who.Name, Token: who.Mark, Remote: remote}
}
