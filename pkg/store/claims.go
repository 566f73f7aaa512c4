package store

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Claims stores the idempotency keys of requests that create a session or an execution outside the store. A caller
// claims the key first and holds it under a lease, so that only one of all requests with this key creates the object.
// The keys share a name space and retention with the keys of jobs and batches.
type Claims interface {
	// ClaimKey binds the key to made, which the caller is about to create, if the tenant has no such key yet; else it
	// returns the current claim. A granted claim is on disk. Repeating it changes nothing. It returns job.ErrKeyUsed if
	// the key came with another body.
	ClaimKey(ctx context.Context, tenant string, key Idempotency, made job.ID, lease time.Duration) (KeyClaim, error)
	// HoldKey prolongs the lease of a claim; false if the key names made no more.
	HoldKey(ctx context.Context, tenant, key string, made job.ID, lease time.Duration) (bool, error)
	// SettleKey ends the claim of made and records that the object was created under the id as. It returns false if the
	// key names another object by now, because another request may have created it.
	SettleKey(ctx context.Context, tenant, key string, made, as job.ID) (bool, error)
	// FreeKey gives up a claim that created nothing. It ignores settled keys and keys of other claims.
	FreeKey(ctx context.Context, tenant, key string, made job.ID) error
}

// KeyClaim is the current claim of an idempotency key.
type KeyClaim struct {
	Made    job.ID
	Settled bool // Made is there, or was
	Held    bool // another request holds it under a current lease
}
