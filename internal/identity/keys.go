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
	// keyPrefix is what the tokens of keys begin with, so that those who look for lost ones find them.
	keyPrefix = "assay_"
	keyBytes  = 32 // at random
)

// keyChars is how many characters say these bytes.
var keyChars = base64.RawURLEncoding.EncodedLen(keyBytes)

// NewKeyToken returns a token for a new key, and what is kept of it.
func NewKeyToken() (token string, hash store.KeyHash) {
	b := make([]byte, keyBytes)
	_, _ = rand.Read(b) // it never fails
	token = keyPrefix + base64.RawURLEncoding.EncodeToString(b)
	return token, sha256.Sum256([]byte(token))
}

// IsKeyToken says whether a token looks like that of a key.
func IsKeyToken(token string) bool {
	chars, ok := strings.CutPrefix(token, keyPrefix)
	if !ok || len(chars) != keyChars {
		return false
	}
	_, err := base64.RawURLEncoding.DecodeString(chars)
	return err == nil
}

// Keys lets those in who have a key. It knows all live ones, and asks the store again and again whether there are others:
// a key that was revoked anywhere ends here as soon as that is answered. Run does that.
type Keys struct {
	store store.Keys
	log   *slog.Logger
	every time.Duration // how often it asks
	least time.Duration // between two questions, however many wait for an answer
	stale time.Duration // how long it lets those in who were known while the store does not answer

	wanted chan struct{} // somebody waits for the next answer

	mu    sync.Mutex
	live  map[store.KeyHash]*liveKey
	at    store.KeyMark // of what is known
	asked time.Time     // when it asked what was last answered
	next  *question
	used  map[job.ID]time.Time // not written down yet
	noted map[job.ID]time.Time // last written down
}

// liveKey is a key that lets somebody in.
type liveKey struct {
	id  job.ID
	who Identity
	end context.CancelCauseFunc // of their Life
	// expiry ends it in time; nil: it does not expire.
	expiry *time.Timer
}

// revoke ends a key before its time.
func (l *liveKey) revoke() {
	l.end(errOver)
	if l.expiry != nil {
		l.expiry.Stop()
	}
}

// question is one, and those who wait for its answer.
type question struct {
	done chan struct{}
	err  error
}

// NewKeys returns a gate over the keys of a store. Run has to be running for it to let anybody in.
func NewKeys(s store.Keys, log *slog.Logger) *Keys {
	return &Keys{
		store: s, log: log, every: 250 * time.Millisecond, least: 50 * time.Millisecond, stale: 30 * time.Second,
		wanted: make(chan struct{}, 1), next: &question{done: make(chan struct{})},
		live: map[store.KeyHash]*liveKey{}, used: map[job.ID]time.Time{}, noted: map[job.ID]time.Time{},
	}
}

// errOver is about a key that lets nobody in.
var errOver = fmt.Errorf("%w: the key was revoked, has expired, or is of another fleet", api.ErrUnauthorized)

// Identify returns whose key the request is sent with. It is for tokens that look like one, and has the last word on them.
// One that is not known may have been made a moment ago: it waits for the next answer of the store, as all who guess do
// together.
func (k *Keys) Identify(r *http.Request) (Identity, error) {
	token, ok := Bearer(r)
	if !ok {
		return Identity{}, notMine(noToken)
	}
	if !IsKeyToken(token) {
		return Identity{}, notMine("the token is unknown here")
	}
	hash := store.KeyHash(sha256.Sum256([]byte(token)))
	who, known, err := k.known(hash)
	if err != nil || known {
		return who, err
	}
	if err := k.wait(r.Context()); err != nil {
		return Identity{}, err
	}
	if who, known, err = k.known(hash); err == nil && !known {
		err = errOver
	}
	return who, err
}

// known returns whose key it is, and notes that it is used.
func (k *Keys) known(hash store.KeyHash) (Identity, bool, error) {
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

// wait waits for the answer to a question that was not asked yet.
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

// Run keeps what is known up to date, until ctx ends.
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

// sleep waits for a time, or until somebody waits for an answer, and says whether ctx is over.
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

// askTime is how long an answer may take.
const askTime = 5 * time.Second

// ask finds out which keys are live, and answers those who wait.
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

// answer tells those who wait that there is no answer any more.
func (k *Keys) answer(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next.err = err
	close(k.next.done)
}

// refresh reads the keys that were made or revoked since the mark at.
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

// replace has the given keys be all that are known.
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

// change adds keys that were made, and ends those that were revoked.
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

// forget drops a key that is over.
func (k *Keys) forget(hash store.KeyHash, l *liveKey) {
	if k.live[hash] == l {
		delete(k.live, hash)
		delete(k.noted, l.id)
	}
}

// newLive is a key that was not known. One that cannot be read, as it is of a later release, lets nobody in.
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

// identityOf is who has a key. Its name begins with its tenant, as no other's does: who may name keys passes for nobody else.
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
	notedFor  = time.Minute // the time of a key's last use stays as it was written down
	noteEvery = 5 * time.Second
)

// note writes down when keys were used, of each once a minute at most. What cannot be written is tried again.
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
