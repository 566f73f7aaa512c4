// Package oidctest is an OpenID Connect issuer on this machine, for tests.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Issuer signs tokens and signs in users.
type Issuer struct {
	URL  string
	Asks atomic.Int64 // number of requests for its keys
	Away atomic.Bool  // makes it answer 503

	server *httptest.Server

	mu     sync.Mutex
	key    jose.JSONWebKey // the signing key
	public []jose.JSONWebKey
	user   map[string]any // the user who signs in with a browser
	codes  map[string]url.Values
	number int
}

// Start starts an issuer that has one key, of ES256. Close must be called.
func Start() *Issuer {
	s := &Issuer{codes: map[string]url.Values{}, user: map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", s.describe)
	mux.HandleFunc("GET /keys", s.keys)
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /token", s.token)
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	s.URL = s.server.URL
	s.Rotate(jose.ES256)
	return s
}

// Close stops it.
func (s *Issuer) Close() { s.server.Close() }

// Rotate replaces all keys by a new one, of RS256 or ES256.
func (s *Issuer) Rotate(alg jose.SignatureAlgorithm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var private crypto.Signer
	var err error
	if alg == jose.RS256 {
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		panic(err) // there is no randomness
	}
	s.number++
	s.key = jose.JSONWebKey{Key: private, KeyID: fmt.Sprintf("key-%d", s.number), Algorithm: string(alg), Use: "sig"}
	s.public = []jose.JSONWebKey{s.key.Public()}
}

// Public returns the public part of the signing key.
func (s *Issuer) Public() jose.JSONWebKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.public[0]
}

// Sign returns a token with claims, added to default claims: this issuer, the audience "assay", the
// subject "u-1", and a lifetime of a minute. A nil claim is left out.
func (s *Issuer) Sign(more map[string]any) string {
	now := time.Now()
	claims := map[string]any{"iss": s.URL, "aud": "assay", "sub": "u-1", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}
	maps.Copy(claims, more)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	s.mu.Lock()
	key := s.key
	s.mu.Unlock()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, nil)
	if err != nil {
		panic(err) // the key is ours
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return text
}

// SignsIn sets the claims of the user who signs in with a browser.
func (s *Issuer) SignsIn(claims map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user = claims
}

func (s *Issuer) describe(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
		"issuer": s.URL, "jwks_uri": s.URL + "/keys", "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
	})
}

// keys serves the signing keys, and some others that readers must ignore.
func (s *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	s.Asks.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []any{map[string]any{"kty": "AKP", "kid": "of-a-kind-to-come"}}
	for _, k := range s.public {
		all = append(all, k)
	}
	answer(w, map[string]any{"keys": all})
}

// authorize signs the user in without a question, as if the browser had signed in before.
func (s *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	code := rand.Text()
	s.mu.Lock()
	s.codes[code] = q
	s.mu.Unlock()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "not a sign-in by code with PKCE", http.StatusBadRequest)
		return
	}
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// token exchanges a code for a token, once, and only for its owner.
func (s *Issuer) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	q, known := s.codes[r.FormValue("code")]
	delete(s.codes, r.FormValue("code"))
	claims := maps.Clone(s.user)
	s.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !known || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || q.Get("redirect_uri") != r.FormValue("redirect_uri") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]any{"error": "invalid_grant"})
		return
	}
	claims["aud"] = q.Get("client_id")
	if claims["nonce"] == nil {
		claims["nonce"] = q.Get("nonce")
	}
	answer(w, map[string]any{"access_token": "opaque", "token_type": "Bearer", "id_token": s.Sign(claims)})
}

func answer(w http.ResponseWriter, v any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	_ = json.NewEncoder(w).Encode(v) // the other end may be gone
}
