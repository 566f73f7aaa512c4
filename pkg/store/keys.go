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

// KeyMark is how far the changes of keys are known. It is comparable.
type KeyMark struct {
	Changes int64
	History string // of the database: a restored one has another
}

// KeyNews is what has changed since a KeyMark.
type KeyNews struct {
	At KeyMark
	// All says that Keys are all that are neither revoked nor expired. Otherwise they are those
	// that were made or revoked: the latter have a RevokedAt.
	All  bool
	Keys []LiveKey
}

// MaxNewKeys is how many keys a tenant makes in an hour at most: each is a row that stays.
const MaxNewKeys = 2 * MaxLiveKeys

// MaxLiveKeys is how many keys of a tenant there are at most that are neither revoked nor
// expired: dispatchers have all of them in memory.
const MaxLiveKeys = 1000

// Keys keeps who may come in. What is done to a key is written down as in Operations.
type Keys interface {
	// PutKey keeps a new key, whose times are the store's to say. job.ErrTooMany if its tenant
	// has MaxLiveKeys, or has made MaxNewKeys in the last hour.
	PutKey(ctx context.Context, a *Action, k LiveKey) (Key, error)
	// Keys lists a tenant's keys, newest first, that are older than the one named (empty: all).
	Keys(ctx context.Context, tenant string, before job.ID, limit int) ([]Key, error)
	// Key returns one, of any tenant for the empty one; job.ErrNotFound if it has none of that id.
	Key(ctx context.Context, tenant string, id job.ID) (Key, error)
	// RevokeKey ends a key for good, and returns it. One that is revoked stays as it is.
	RevokeKey(ctx context.Context, a *Action, id job.ID) (Key, error)

	// KeyNews returns the keys that were made or revoked since a mark; the zero mark is before all.
	// It costs what has changed, however many keys there are.
	KeyNews(ctx context.Context, since KeyMark) (KeyNews, error)
	// KeysUsed writes down when keys were last used; an earlier time than is known changes nothing.
	KeysUsed(ctx context.Context, at map[job.ID]time.Time) error
}
