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

// LiveKey is a key with its hash.
type LiveKey struct {
	Key
	Hash KeyHash
}

// KeyMark is a position in the changes of keys. It is comparable.
type KeyMark struct {
	Changes int64
	History string // of the database: a restored one has another
}

// KeyNews is the changes since a KeyMark.
type KeyNews struct {
	At KeyMark
	// All means that Keys are all keys that are neither revoked nor expired. Otherwise Keys are the created and revoked
	// keys; the latter have a RevokedAt.
	All  bool
	Keys []LiveKey
}

// MaxNewKeys is how many keys a tenant makes in an hour at most: each is a row that stays.
const MaxNewKeys = 2 * MaxLiveKeys

// MaxLiveKeys is how many keys of a tenant there are at most that are neither revoked nor
// expired: dispatchers have all of them in memory.
const MaxLiveKeys = 1000

// Keys stores API keys. Changes to a key are recorded as in Operations.
type Keys interface {
	// PutKey stores a new key and sets its times. It returns job.ErrTooMany if its tenant has MaxLiveKeys, or created
	// MaxNewKeys in the last hour.
	PutKey(ctx context.Context, a *Action, k LiveKey) (Key, error)
	// Keys lists a tenant's keys, newest first, that are older than the one named (empty: all).
	Keys(ctx context.Context, tenant string, before job.ID, limit int) ([]Key, error)
	// Key returns one, of any tenant for the empty one; job.ErrNotFound if it has none of that id.
	Key(ctx context.Context, tenant string, id job.ID) (Key, error)
	// RevokeKey revokes a key for good and returns it. It does not change a revoked key.
	RevokeKey(ctx context.Context, a *Action, id job.ID) (Key, error)

	// KeyNews returns the keys created or revoked since a mark; the zero mark is before all. Its cost depends on the
	// changes, not on the number of keys.
	KeyNews(ctx context.Context, since KeyMark) (KeyNews, error)
	// KeysUsed records when keys were last used. Earlier times than the recorded ones change nothing.
	KeysUsed(ctx context.Context, at map[job.ID]time.Time) error
}
