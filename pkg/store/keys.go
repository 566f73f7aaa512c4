package store

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// Key is a key without its token.
type Key = fleet.Key

// KeyHash is the SHA-256 of a key's token, which is all that is kept of it.
type KeyHash [sha256.Size]byte

// LiveKey is a key that was not revoked, as those know it who let people in.
type LiveKey struct {
	Key
	Hash KeyHash
}

// MaxLiveKeys is how many keys of a tenant there are at most that are neither revoked nor
// expired: dispatchers have all of them in memory.
const MaxLiveKeys = 1000

// Keys keeps who may come in. What is done to a key is written down as in Operations.
type Keys interface {
	// PutKey keeps a new key, whose times are the store's to say. job.ErrTooMany if its tenant
	// has MaxLiveKeys.
	PutKey(ctx context.Context, a *Action, k LiveKey) (Key, error)
	// Keys lists a tenant's keys, newest first, that are older than the one named (empty: all).
	Keys(ctx context.Context, tenant string, before job.ID, limit int) ([]Key, error)
	// Key returns one, of any tenant for the empty one; job.ErrNotFound if it has none of that id.
	Key(ctx context.Context, tenant string, id job.ID) (Key, error)
	// RevokeKey ends a key for good, and returns it. One that is revoked stays as it is.
	RevokeKey(ctx context.Context, a *Action, id job.ID) (Key, error)

	// KeyChanges is another number whenever a key was made or revoked. It is to be asked for
	// again and again.
	KeyChanges(ctx context.Context) (int64, error)
	// LiveKeys returns all keys that are neither revoked nor expired.
	LiveKeys(ctx context.Context) ([]LiveKey, error)
	// KeysUsed writes down when keys were last used; an earlier time than is known changes nothing.
	KeysUsed(ctx context.Context, at map[job.ID]time.Time) error
}
