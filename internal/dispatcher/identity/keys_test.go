package identity_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// unused implements the methods that a gate does not call.
type unused struct{ store.Store }

// keptKeys is a store of keys in memory.
type keptKeys struct {
	unused
	asked, read, noted, keysRead atomic.Int64

	mu      sync.Mutex
	down    bool
	changed []job.ID // in order
	history string
	all     map[job.ID]store.LiveKey
}

func (k *keptKeys) KeyNews(_ context.Context, since store.KeyMark) (news store.KeyNews, err error) {
	k.asked.Add(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down {
		return news, job.ErrUnavailable
	}
	if news.At = (store.KeyMark{Changes: int64(len(k.changed)) + 1, History: k.history}); news.At == since {
		return news, nil
	}
	k.read.Add(1)
	defer func() { k.keysRead.Add(int64(len(news.Keys))) }()
	if news.All = since == (store.KeyMark{}) || since.History != k.history; !news.All {
		for _, id := range k.changed[since.Changes-1:] {
			news.Keys = append(news.Keys, k.all[id])
		}
		return news, nil
	}
	for _, key := range k.all {
		if key.RevokedAt == nil {
			news.Keys = append(news.Keys, key)
		}
	}
	return news, nil
}

func (k *keptKeys) KeysUsed(context.Context, map[job.ID]time.Time) error {
	k.noted.Add(1)
	return nil
}

// put creates a key and returns its token.
func (k *keptKeys) put(key store.Key) (job.ID, string) {
	token, hash := identity.NewKeyToken()
	key.ID = job.NewID()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all[key.ID] = store.LiveKey{Key: key, Hash: hash}
	k.changed = append(k.changed, key.ID)
	return key.ID, token
}

func (k *keptKeys) revoke(id job.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, now := k.all[id], time.Now()
	key.RevokedAt = &now
	k.all[id] = key
	k.changed = append(k.changed, id)
}

// restoreWithout restores a dump without a key.
func (k *keptKeys) restoreWithout(id job.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, id)
	k.history = "restored"
}

func (k *keptKeys) setDown(down bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = down
}

// gated runs f in a synctest bubble with a gate over a store.
func gated(t *testing.T, f func(t *testing.T, s *keptKeys, g *identity.Keys)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &keptKeys{all: map[job.ID]store.LiveKey{}}
		g := identity.NewKeys(s, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		var ran sync.WaitGroup
		ran.Go(func() { g.Run(ctx) })
		f(t, s, g)
		stop()
		ran.Wait()
	})
}

func with(token string) *http.Request {
	r, _ := http.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func submitter() store.Key {
	return store.Key{Tenant: "a", Role: "submitter", Name: "ci", Label: "run=7", Policy: "strict"}
}

func TestKeyIsKnownAtOnceAndEndsWithinASecond(t *testing.T) {
	t.Parallel()
	gated(t, func(t *testing.T, s *keptKeys, g *identity.Keys) {
		time.Sleep(time.Minute)
		start := time.Now()
		id, token := s.put(submitter())
		who, err := g.Identify(with(token))
		if took := time.Since(start); err != nil || took > 100*time.Millisecond {
			t.Fatalf("a key that was just made: %v after %v", err, took)
		}
		want := identity.Held{Label: identity.Label{Key: "run", Value: "7"}, Policy: "strict"}
		if who.Tenant != "a" || who.Role != identity.Submitter || who.Name != "a/ci" || len(who.Mark) != 8 || who.Held != want || !who.Until.IsZero() {
			t.Errorf("it is %+v", who)
		}
		other, _ := s.put(submitter())
		s.revoke(other)
		time.Sleep(time.Second)
		if who.Life.Err() != nil {
			t.Error("the end of another key ended this one")
		}
		s.revoke(id)
		time.Sleep(time.Second)
		if _, err := g.Identify(with(token)); !errors.Is(err, api.ErrUnauthorized) || errors.Is(err, identity.ErrForeignToken) {
			t.Errorf("a second after it was revoked: %v", err)
		}
		if !errors.Is(context.Cause(who.Life), api.ErrUnauthorized) {
			t.Errorf("what it has under way goes on: %v", context.Cause(who.Life))
		}
	})
}

func TestKeyExpires(t *testing.T) {
	t.Parallel()
	gated(t, func(t *testing.T, s *keptKeys, g *identity.Keys) {
		until := time.Now().Add(time.Minute)
		key := submitter()
		key.ExpiresAt = &until
		_, token := s.put(key)
		who, err := g.Identify(with(token))
		if err != nil || !who.Until.Equal(until) {
			t.Fatalf("%+v, %v", who, err)
		}
		time.Sleep(time.Until(until) - time.Millisecond)
		if _, err := g.Identify(with(token)); err != nil {
			t.Errorf("before its end: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		if _, err := g.Identify(with(token)); !errors.Is(err, api.ErrUnauthorized) || who.Life.Err() == nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

// TestGuessesCostTheStoreNothing checks that guesses cost the store only polls, at the highest rate, and no read of
// keys.
func TestGuessesCostTheStoreNothing(t *testing.T) {
	t.Parallel()
	gated(t, func(t *testing.T, s *keptKeys, g *identity.Keys) {
		time.Sleep(time.Second)
		asked, read, start := s.asked.Load(), s.read.Load(), time.Now()
		var guesses sync.WaitGroup
		for range 100 {
			guesses.Go(func() {
				for range 100 {
					token, _ := identity.NewKeyToken()
					if _, err := g.Identify(with(token)); !errors.Is(err, api.ErrUnauthorized) {
						t.Errorf("a guess: %v", err)
					}
				}
			})
		}
		guesses.Wait()
		took := time.Since(start)
		if n := s.asked.Load() - asked; n > int64(took/(50*time.Millisecond))+2 || s.read.Load() != read {
			t.Errorf("10,000 guesses in %v were %d questions and %d looks", took, n, s.read.Load()-read)
		}
		for _, token := range []string{"x", "assay_", "assay_" + strings.Repeat("!", 43), "assay_" + strings.Repeat("A", 44)} {
			start := time.Now()
			if _, err := g.Identify(with(token)); !errors.Is(err, identity.ErrForeignToken) || !errors.Is(err, api.ErrUnauthorized) || time.Since(start) > 0 {
				t.Errorf("%q: %v after %v", token, err, time.Since(start))
			}
		}
	})
}

func TestKnownKeysOutlastAnOutageForAWhile(t *testing.T) {
	t.Parallel()
	gated(t, func(t *testing.T, s *keptKeys, g *identity.Keys) {
		_, token := s.put(submitter())
		if _, err := g.Identify(with(token)); err != nil {
			t.Fatal(err)
		}
		s.setDown(true)
		time.Sleep(25 * time.Second)
		if _, err := g.Identify(with(token)); err != nil {
			t.Errorf("in an outage: %v", err)
		}
		unknown, _ := identity.NewKeyToken()
		if _, err := g.Identify(with(unknown)); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("one that is not known, in an outage: %v", err)
		}
		time.Sleep(10 * time.Second)
		if _, err := g.Identify(with(token)); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("in a long outage: %v", err)
		}
		s.setDown(false)
		time.Sleep(time.Second)
		if _, err := g.Identify(with(token)); err != nil {
			t.Errorf("after it: %v", err)
		}
	})
}

func TestUseIsNotedOnceAMinute(t *testing.T) {
	t.Parallel()
	gated(t, func(t *testing.T, s *keptKeys, g *identity.Keys) {
		_, token := s.put(submitter())
		for range 600 {
			if _, err := g.Identify(with(token)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := s.noted.Load(); n < 8 || n > 11 {
			t.Errorf("600 uses in ten minutes are written down %d times", n)
		}
	})
}

func TestGatesInARow(t *testing.T) {
	t.Parallel()
	gated(t, func(t *testing.T, s *keptKeys, g *identity.Keys) {
		tokens, err := identity.ReadTokens("t=b:admin")
		if err != nil {
			t.Fatal(err)
		}
		id, key := s.put(submitter())
		unknown, _ := identity.NewKeyToken()
		identified := func(gate identity.Gate, token string) string {
			r := with(token)
			if token == "" {
				r.Header.Del("Authorization")
			}
			who, err := gate.Identify(r)
			if err != nil {
				return fmt.Sprint(errors.Is(err, api.ErrUnauthorized))
			}
			return who.Tenant + ":" + who.Role.String()
		}
		closed, open := identity.WithKeys(tokens, g), identity.WithKeys(identity.Open{}, g)
		if identity.IsOpen(closed) || !identity.IsOpen(open) {
			t.Error("which of them is open?")
		}
		for token, want := range map[string][2]string{
			"t": {"b:admin", "default:admin"}, key: {"a:submitter", "a:submitter"}, "": {"true", "default:admin"}, "x": {"true", "default:admin"}, unknown: {"true", "true"},
		} {
			if got := [2]string{identified(closed, token), identified(open, token)}; got != want {
				t.Errorf("token %q is %v, want %v", token, got, want)
			}
		}
		says := refusing{fmt.Errorf("%w: the JWT has expired", api.ErrUnauthorized)}
		if _, err := identity.All(tokens, says, g).Identify(with("jwt")); !errors.Is(err, says.error) {
			t.Errorf("who knows the kind of a token is not heard: %v", err)
		}
		if got := identified(identity.All(says, closed), "t"); got != "b:admin" {
			t.Errorf("behind a gate that refuses: %s", got)
		}
		if _, err := identity.All(refusing{job.ErrUnavailable}, identity.Open{}).Identify(with("x")); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("what cannot be found out: %v", err)
		}
		s.revoke(id)
		time.Sleep(time.Second)
		if got := identified(open, key); got != "true" {
			t.Errorf("a revoked key on an open fleet is %s", got)
		}
	})
}

// refusing is a gate that rejects every request.
type refusing struct{ error }

func (g refusing) Identify(*http.Request) (identity.Identity, error) {
	return identity.Identity{}, g.error
}

// TestManyKeysAreReadOnce checks that a change among 1,000 keys reads only the changed key, and that revoked keys are
// forgotten.
func TestManyKeysAreReadOnce(t *testing.T) {
	t.Parallel()
	gated(t, func(t *testing.T, s *keptKeys, g *identity.Keys) {
		until := time.Now().Add(24 * time.Hour)
		key := submitter()
		key.ExpiresAt = &until
		var ids []job.ID
		var last string
		for range 1000 {
			var id job.ID
			id, last = s.put(key)
			ids = append(ids, id)
		}
		if _, err := g.Identify(with(last)); err != nil {
			t.Fatal(err)
		}
		before := s.keysRead.Load()
		for _, id := range ids[:10] {
			s.revoke(id)
		}
		time.Sleep(time.Second)
		if n := s.keysRead.Load() - before; n != 10 {
			t.Errorf("10 keys were revoked, and %d were read", n)
		}
		for _, id := range ids {
			s.revoke(id)
		}
		time.Sleep(time.Second)
		if known := g.Size(); known != 0 {
			t.Errorf("after all are revoked, %d keys are left", known)
		}
	})
}

func TestRestoredKeysReplaceTheKnown(t *testing.T) {
	t.Parallel()
	gated(t, func(t *testing.T, s *keptKeys, g *identity.Keys) {
		_, lost := s.put(submitter())
		_, kept := s.put(submitter())
		for _, token := range []string{lost, kept} {
			if _, err := g.Identify(with(token)); err != nil {
				t.Fatal(err)
			}
		}
		s.restoreWithout(s.changed[0])
		time.Sleep(time.Second)
		if _, err := g.Identify(with(lost)); !errors.Is(err, api.ErrUnauthorized) {
			t.Errorf("a key that the restored database does not have: %v", err)
		}
		if _, err := g.Identify(with(kept)); err != nil {
			t.Errorf("a key that it has: %v", err)
		}
	})
}
