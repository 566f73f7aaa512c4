package store

import (
	"context"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Claims keeps the idempotency keys of requests that have something made outside the store: a
// session, or an execution in one. Such a key is claimed before anything is made, and held under
// a lease meanwhile, so that of all requests with it one makes what it names. It is one key with
// those of jobs and batches, and is kept for as long.
type Claims interface {
	// ClaimKey has the key name made, which the caller is about to make, if the tenant has no
	// such key yet; else it returns who has it. Whoever gets it has it on disk. Saying it
	// twice is the same as once. job.ErrKeyUsed if the key came with another body.
	ClaimKey(ctx context.Context, tenant string, key Idempotency, made job.ID, lease time.Duration) (KeyClaim, error)
	// HoldKey prolongs the lease of a claim; false if the key names made no more.
	HoldKey(ctx context.Context, tenant, key string, made job.ID, lease time.Duration) (bool, error)
	// SettleKey says that what the key names is made, as whatever id, and that the claim of made is
	// over; false if the key does not name it any more: somebody else may have made it.
	SettleKey(ctx context.Context, tenant, key string, made, as job.ID) (bool, error)
	// FreeKey gives up a claim of which nothing came. A key that is settled or names something
	// else stays.
	FreeKey(ctx context.Context, tenant, key string, made job.ID) error
}

// KeyClaim is who has an idempotency key.
type KeyClaim struct {
	Made    job.ID
	Settled bool // Made is there, or was
	Held    bool // somebody is at it: its lease is not over
}
