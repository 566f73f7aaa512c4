package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

const (
	// keyPrefix starts the token of every key, so that secret scanners find leaked ones.
	keyPrefix = "assay_"
	keyBytes  = 32 // random bytes
)

// keyChars is the length of the encoded random bytes.
var keyChars = base64.RawURLEncoding.EncodedLen(keyBytes)

// NewKeyToken returns the token of a new key, and its hash for the store.
func NewKeyToken() (token string, hash store.KeyHash) {
	b := make([]byte, keyBytes)
	_, _ = rand.Read(b) // it never fails
	token = keyPrefix + base64.RawURLEncoding.EncodeToString(b)
	return token, sha256.Sum256([]byte(token))
}

// IsKeyToken reports whether a token has the form of a key's.
func IsKeyToken(token string) bool {
	chars, ok := strings.CutPrefix(token, keyPrefix)
	if !ok || len(chars) != keyChars {
		return false
	}
	_, err := base64.RawURLEncoding.DecodeString(chars)
	return err == nil
}

// KeyStore is the part of the store that Keys uses.
type KeyStore interface {
	KeyNews(ctx context.Context, since store.KeyMark) (store.KeyNews, error)
	KeysUsed(ctx context.Context, at map[job.ID]time.Time) error
}

// Keys authenticates the holders of keys. Run polls the store for new and revoked keys, so a key that is revoked
// anywhere ends here with the next answer.
type Keys struct {
	store KeyStore
	log   *slog.Logger
	every time.Duration // longest pause between two polls
	least time.Duration // shortest pause between two polls, however many requests wait
	stale time.Duration // how long known keys stay valid while the store does not answer

	wanted chan struct{} // a request waits for the next answer

	mu    sync.Mutex
	live  map[store.KeyHash]*liveKey
	at    store.KeyMark // mark of the known keys
	asked time.Time     // start of the last answered poll
	next  *question
	used  map[job.ID]time.Time // last uses, not stored yet
	noted map[job.ID]time.Time // last stored uses
}

// liveKey is a valid key.
type liveKey struct {
	id  job.ID
	who Identity
	end context.CancelCauseFunc // of its identity's Life
	// expiry ends the key in time; nil: it does not expire.
	expiry *time.Timer
}

// revoke ends a key before its expiry.
func (l *liveKey) revoke() {
	l.end(errOver)
	if l.expiry != nil {
		l.expiry.Stop()
	}
}

// question is one poll, for the requests that wait for it.
type question struct {
	done chan struct{}
	err  error
}

// NewKeys returns a gate for the keys of a store. It admits no request until Run polls the store.
func NewKeys(s KeyStore, log *slog.Logger) *Keys {
	return &Keys{
		store: s, log: log, every: 250 * time.Millisecond, least: 50 * time.Millisecond, stale: 30 * time.Second,
		wanted: make(chan struct{}, 1), next: &question{done: make(chan struct{})},
		live: map[store.KeyHash]*liveKey{}, used: map[job.ID]time.Time{}, noted: map[job.ID]time.Time{},
	}
}

// errOver is the error for a key that is not valid.
var errOver = fmt.Errorf("%w: the key was revoked, has expired, or is of another fleet", api.ErrUnauthorized)

// Identify returns the identity of the key in a request. It rejects unknown keys for good, so that no other gate is
// tried. An unknown key may be new: the request waits for the next poll, which all such requests share.
func (k *Keys) Identify(r *http.Request) (Identity, error) {
	token, ok := Bearer(r)
	if !ok {
		return Identity{}, foreignToken(noToken)
	}
	if !IsKeyToken(token) {
		return Identity{}, foreignToken("the token is unknown here")
	}
	hash := store.KeyHash(sha256.Sum256([]byte(token)))
	who, known, err := k.lookUp(hash)
	if err != nil || known {
		return who, err
	}
	if err := k.wait(r.Context()); err != nil {
		return Identity{}, err
	}
	if who, known, err = k.lookUp(hash); err == nil && !known {
		err = errOver
	}
	return who, err
}

// lookUp returns the identity of a known key and records its use. It returns job.ErrUnavailable if the last answer of
// the store is too old.
func (k *Keys) lookUp(hash store.KeyHash) (Identity, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	key, known := k.live[hash]
	switch {
	case !known || key.who.Life.Err() != nil:
		return Identity{}, false, nil
	case now.Sub(k.asked) > k.stale:
		return Identity{}, false, fmt.Errorf("%w: whether the key was revoked cannot be found out", job.ErrUnavailable)
	}
	k.used[key.id] = now
	return key.who, true, nil
}

// wait waits for the answer to the next poll.
func (k *Keys) wait(ctx context.Context) error {
	k.mu.Lock()
	next := k.next
	k.mu.Unlock()
	select {
	case k.wanted <- struct{}{}:
	default:
	}
	select {
	case <-next.done:
		return next.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run polls the store and stores the last uses of keys, until ctx ends.
func (k *Keys) Run(ctx context.Context) {
	var notes sync.WaitGroup
	defer notes.Wait()
	notes.Go(func() {
		for !sleep(ctx, noteEvery, nil) {
			k.note(ctx)
		}
	})
	failing := false
	for ctx.Err() == nil {
		err := k.ask(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			k.log.WarnContext(ctx, "API keys not refreshed; known keys stay valid for a while", "for", k.stale, "error", err)
		}
		failing = err != nil
		if !sleep(ctx, k.least, nil) {
			sleep(ctx, k.every-k.least, k.wanted)
		}
	}
	k.answer(fmt.Errorf("%w: this dispatcher is about to end", job.ErrUnavailable))
}

// sleep waits for d or until a request waits for an answer. It reports whether ctx has ended.
func sleep(ctx context.Context, d time.Duration, until <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-until:
	case <-ctx.Done():
		return true
	}
	return false
}

// askTime is the timeout of a poll.
const askTime = 5 * time.Second

// ask polls the store and wakes the requests that wait.
func (k *Keys) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	began := time.Now()
	k.mu.Lock()
	mine, at := k.next, k.at
	k.next = &question{done: make(chan struct{})}
	k.mu.Unlock()
	defer close(mine.done)
	if err := k.refresh(ctx, at); err != nil {
		mine.err = fmt.Errorf("look for keys: %w", err)
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = began
	return nil
}

// answer ends the wait of requests with an error, when no more polls follow.
func (k *Keys) answer(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next.err = err
	close(k.next.done)
}

// refresh reads the keys that were created or revoked since the mark at.
func (k *Keys) refresh(ctx context.Context, at store.KeyMark) error {
	news, err := k.store.KeyNews(ctx, at)
	if err != nil || !news.All && len(news.Keys) == 0 && news.At == at {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if news.All {
		k.replace(news.Keys)
	} else {
		k.change(news.Keys)
	}
	k.at = news.At
	return nil
}

// replace replaces all known keys.
func (k *Keys) replace(keys []store.LiveKey) {
	live, noted := make(map[store.KeyHash]*liveKey, len(keys)), make(map[job.ID]time.Time, len(k.noted))
	for _, key := range keys {
		live[key.Hash] = k.live[key.Hash]
		if live[key.Hash] == nil {
			live[key.Hash] = k.newLive(key)
		}
		if at, isNoted := k.noted[key.ID]; isNoted {
			noted[key.ID] = at
		}
	}
	for hash, had := range k.live {
		if live[hash] == nil {
			had.revoke()
		}
	}
	k.live, k.noted = live, noted
}

// change adds new keys and ends revoked ones.
func (k *Keys) change(keys []store.LiveKey) {
	for _, key := range keys {
		had := k.live[key.Hash]
		switch {
		case key.RevokedAt == nil && had == nil:
			k.live[key.Hash] = k.newLive(key)
		case key.RevokedAt != nil && had != nil:
			had.revoke()
			k.forget(key.Hash, had)
		}
	}
}

// forget drops an invalid key.
func (k *Keys) forget(hash store.KeyHash, l *liveKey) {
	if k.live[hash] == l {
		delete(k.live, hash)
		delete(k.noted, l.id)
	}
}

// newLive returns a new valid key. A key that this release cannot read, such as one with an unknown role, is invalid.
func (k *Keys) newLive(key store.LiveKey) *liveKey {
	who, err := identityOf(key)
	life, end := context.WithCancelCause(context.Background())
	if err != nil {
		k.log.Warn("API key not usable here", "key", key.ID, "error", err)
		end(err)
	}
	who.Life = life
	l := &liveKey{id: key.ID, who: who, end: end}
	if key.ExpiresAt != nil {
		l.expiry = time.AfterFunc(time.Until(*key.ExpiresAt), func() {
			end(errOver)
			k.mu.Lock()
			defer k.mu.Unlock()
			k.forget(key.Hash, l)
		})
	}
	return l
}

// identityOf returns the identity of a key. Its name starts with the tenant, so it cannot equal a name in another
// tenant.
func identityOf(key store.LiveKey) (Identity, error) {
	role, err := ParseRole(key.Role)
	if err != nil {
		return Identity{}, err
	}
	label, err := ParseLabel(key.Label)
	who := Identity{Tenant: key.Tenant, Role: role, Name: key.Tenant + "/" + key.Name, Mark: Mark(key.Hash), Held: Held{Label: label, Policy: key.Policy}}
	if key.ExpiresAt != nil {
		who.Until = *key.ExpiresAt
	}
	return who, err
}

const (
	notedFor  = time.Minute // minimum time between two stored uses of a key
	noteEvery = 5 * time.Second
)

// note stores the last uses of keys, at most once per notedFor and key. After an error the next call tries again.
func (k *Keys) note(ctx context.Context) {
	due := map[job.ID]time.Time{}
	k.mu.Lock()
	for id, at := range k.used {
		if at.Sub(k.noted[id]) >= notedFor {
			due[id] = at
		}
	}
	k.mu.Unlock()
	if len(due) == 0 || k.store.KeysUsed(ctx, due) != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, at := range due {
		k.noted[id] = at
		if k.used[id].Equal(at) {
			delete(k.used, id)
		}
	}
}
