package store

import (
	"context"
)

// Secrets stores tenants' sealed secrets. The store cannot read them: the dispatchers have the key.
type Secrets interface {
	// PutSecret stores or replaces a secret. It records the action, without the value, as in Operations, unless it is
	// nil.
	PutSecret(ctx context.Context, a *Action, ref SecretRef, sealed []byte) error
	// DeleteSecret forgets a secret; job.ErrNotFound if there is none.
	DeleteSecret(ctx context.Context, a *Action, ref SecretRef) error
	// Secrets lists the tenant's secrets, by name.
	Secrets(ctx context.Context, tenant string) ([]StoredSecret, error)
	// Sealed returns the named secrets that exist.
	Sealed(ctx context.Context, refs []SecretRef) (map[SecretRef][]byte, error)
}

// SecretRef names a secret.
type SecretRef struct{ Tenant, Name string }
