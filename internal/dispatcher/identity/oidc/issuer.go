package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/assay-run/assay/pkg/job"
)

const (
	// askTime limits the time of an issuer's answer, and askBytes its size.
	askTime  = 5 * time.Second
	askBytes = 1 << 20
	// askPause is the minimum time between two requests for its keys. Otherwise tokens with unknown
	// key names could cause a request each.
	askPause = 5 * time.Second
	// keysAge is how long keys are used before they are read again. While the issuer is not
	// available, the old keys stay in use.
	keysAge = 10 * time.Minute
)

// metadata is the issuer's description of itself.
type metadata struct {
	Issuer        string `json:"issuer"`
	Authorization string `json:"authorization_endpoint"`
	Token         string `json:"token_endpoint"`
	Keys          string `json:"jwks_uri"`
}

// issuer caches the keys of an issuer. It is contacted on demand, so it need not be available when
// we start.
type issuer struct {
	url   string
	http  *http.Client
	pause time.Duration

	asking sync.Mutex // held during a request

	mu    sync.Mutex // guards the fields below
	about *metadata
	keys  []jose.JSONWebKey
	asked time.Time // time of the last request, regardless of its result
	fresh time.Time // time when keys were read
	err   error     // of the last request
}

func newIssuer(url string, client *http.Client) *issuer {
	if client == nil {
		client = &http.Client{Timeout: askTime, CheckRedirect: stayPrivate}
	}
	return &issuer{url: url, http: client, pause: askPause}
}

// stayPrivate follows redirects, except from https to an unprotected address.
func stayPrivate(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > 5:
		return errors.New("too many redirects")
	case via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
		return fmt.Errorf("a redirect to %s, which is not https", r.URL.Host)
	}
	return nil
}

// key returns the keys for tokens with this key ID, or all keys for tokens without one. The error
// wraps job.ErrUnavailable if the issuer must be contacted and does not answer.
func (s *issuer) key(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	found, age := s.cachedKeys(id)
	if len(found) > 0 && age < keysAge {
		return found, nil
	}
	err := s.ask(ctx, len(found) > 0)
	if now, _ := s.cachedKeys(id); len(now) > 0 || err == nil {
		return now, nil
	}
	return nil, err
}

// cachedKeys returns the cached keys for an ID and their age.
func (s *issuer) cachedKeys(id string) (found []jose.JSONWebKey, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if id == "" || k.KeyID == id {
			found = append(found, k)
		}
	}
	return found, time.Since(s.fresh)
}

// ask reads the issuer's keys, unless that was done a moment ago. If there are old keys to use,
// only one request waits for the answer.
func (s *issuer) ask(ctx context.Context, have bool) error {
	if have {
		if !s.asking.TryLock() {
			return nil
		}
	} else {
		s.asking.Lock()
	}
	defer s.asking.Unlock()
	s.mu.Lock()
	asked, last := s.asked, s.err
	s.mu.Unlock()
	if !asked.IsZero() && time.Since(asked) < s.pause {
		return last
	}
	// The answer is for all requests, so it does not end with this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	keys, err := s.read(ctx)
	if err != nil {
		slog.WarnContext(ctx, "keys of the token issuer not available", "issuer", s.url, "error", err)
		err = fmt.Errorf("%w: the keys of the issuer %s are not available; try again later", job.ErrUnavailable, s.url)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.err = time.Now(), err
	if err == nil {
		s.keys, s.fresh = keys, s.asked
	}
	return err
}

func (s *issuer) read(ctx context.Context) ([]jose.JSONWebKey, error) {
	about, err := s.describe(ctx)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := s.get(ctx, about.Keys, &set); err != nil {
		return nil, fmt.Errorf("its keys: %w", err)
	}
	var out []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &k) != nil || !k.IsPublic() || k.Use == "enc" {
			continue // of an unknown kind, or for another use: the other keys count
		}
		out = append(out, k)
	}
	if len(out) == 0 {
		return nil, errors.New("it has no signing key")
	}
	return out, nil
}

// describe reads the issuer's description of itself, once.
func (s *issuer) describe(ctx context.Context) (*metadata, error) {
	s.mu.Lock()
	about := s.about
	s.mu.Unlock()
	if about != nil {
		return about, nil
	}
	about = &metadata{}
	if err := s.get(ctx, strings.TrimSuffix(s.url, "/")+"/.well-known/openid-configuration", about); err != nil {
		return nil, fmt.Errorf("its configuration: %w", err)
	}
	if about.Issuer != s.url {
		return nil, fmt.Errorf("its configuration is of the issuer %.200q", about.Issuer)
	}
	for _, u := range []string{about.Keys, about.Token, about.Authorization} {
		if strings.HasPrefix(s.url, "https:") && u != "" && !strings.HasPrefix(u, "https:") {
			return nil, fmt.Errorf("its configuration names %.200q, which is not https", u)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about = about
	return about, nil
}

func (s *issuer) get(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, askBytes))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}
