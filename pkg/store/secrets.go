package store

import (
	"context"
)

// Secrets keeps what tenants have sealed for their jobs. The store cannot read
// it: the key is the dispatchers'.
type Secrets interface {
	// PutSecret stores or replaces a secret. The action is written down as those of
	// Operations are, and never has a value in it; nil: it is not.
	PutSecret(ctx context.Context, a *Action, ref SecretRef, sealed []byte) error
	// DeleteSecret forgets a secret; job.ErrNotFound if there is none.
	DeleteSecret(ctx context.Context, a *Action, ref SecretRef) error
	// Secrets lists the tenant's secrets, by name.
	Secrets(ctx context.Context, tenant string) ([]StoredSecret, error)
	// Sealed returns those of the named secrets that exist.
	Sealed(ctx context.Context, refs []SecretRef) (map[SecretRef][]byte, error)
}

// SecretRef names a secret.
type SecretRef struct{ Tenant, Name string }
