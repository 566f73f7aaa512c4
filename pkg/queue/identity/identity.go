// Package identity identifies the parts of a fleet. Everything derives from one key that only
// dispatchers have: their own name at the NATS server, the signature under workers' permissions
// there, and the workers' tokens.
//
// Nothing is stored, because a token is a MAC of its permissions. A worker's token admits one
// worker under one name. A join token admits any number of workers of a pool. The name of each ends
// in the fingerprint of the worker's own key, so no worker can take another's name.
package identity

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/assay-run/assay/pkg/job"
)

// Key is the secret of a fleet.
type Key struct {
	issuer, dispatcher nkeys.KeyPair
	names              []byte
	tokens             [][]byte // the first creates tokens; all are valid
}

// keyBytes is the length of the secret.
const keyBytes = 32

// NewKey returns the text of a new key.
func NewKey() string {
	var raw [keyBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	return base64.StdEncoding.EncodeToString(raw[:])
}

// ParseKey reads one key of 32 bytes in base64, or several with commas between them. The second
// then creates tokens; the third and later ones keep older tokens valid. The NATS server's
// configuration depends on the first only, so token rotation does not change it. The error wraps
// job.ErrInvalid and reveals nothing of the text.
func ParseKey(text string) (*Key, error) {
	var raws [][]byte
	for part := range strings.SplitSeq(text, ",") {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(part))
		if err != nil || len(raw) != keyBytes {
			return nil, job.Invalid("key", "must be 32 random bytes in base64, such as: openssl rand -base64 32; or several, separated by commas")
		}
		raws = append(raws, raw)
	}
	k := &Key{names: derive(raws[0], "names")}
	for _, raw := range raws[min(1, len(raws)-1):] {
		k.tokens = append(k.tokens, derive(raw, "tokens"))
	}
	var err error
	if k.issuer, err = nkeys.FromRawSeed(nkeys.PrefixByteAccount, derive(raws[0], "issuer")); err != nil {
		return nil, fmt.Errorf("derive the issuer: %w", err)
	}
	if k.dispatcher, err = nkeys.FromRawSeed(nkeys.PrefixByteUser, derive(raws[0], "dispatcher")); err != nil {
		return nil, fmt.Errorf("derive the dispatcher: %w", err)
	}
	return k, nil
}

// RotateKey returns the text of a key with a new secret for tokens. Tokens of the previous secret
// stay valid until the next rotation; older ones become invalid.
func RotateKey(text string) (string, error) {
	if _, err := ParseKey(text); err != nil {
		return "", err
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join([]string{parts[0], NewKey(), parts[min(1, len(parts)-1)]}, ","), nil
}

func derive(raw []byte, use string) []byte {
	out, err := hkdf.Key(sha256.New, raw, nil, "assay "+use, keyBytes)
	if err != nil {
		panic(err) // the constant length is valid
	}
	return out
}

// Issuer signs workers' permissions. The NATS server has its public half.
func (k *Key) Issuer() nkeys.KeyPair { return k.issuer }

// Dispatcher is the dispatchers' own key at the NATS server.
func (k *Key) Dispatcher() nkeys.KeyPair { return k.dispatcher }

// Public returns the public keys for the NATS server's configuration.
func (k *Key) Public() (issuer, dispatcher string) {
	issuer, err := k.issuer.PublicKey()
	if err == nil {
		dispatcher, err = k.dispatcher.PublicKey()
	}
	if err != nil {
		panic(err) // both were made from seeds
	}
	return issuer, dispatcher
}

// Name returns a name for a purpose. It cannot be guessed without the key.
func (k *Key) Name(of string) string { return hex.EncodeToString(code(k.names, of))[:32] }

const (
	workerToken = "worker."
	joinToken   = "join."
)

// Token admits a worker of a pool under exactly this name.
func (k *Key) Token(worker, pool string) string {
	return workerToken + base64.RawURLEncoding.EncodeToString(code(k.tokens[0], "worker", worker, pool))
}

// JoinToken admits workers of a pool under the names from Worker.Join.
func (k *Key) JoinToken(pool string) string {
	return joinToken + base64.RawURLEncoding.EncodeToString(code(k.tokens[0], "join", pool))
}

// Check reports whether the owner of a token may be this worker of this pool. proven is the public
// key with a verified signature, or "". The error wraps job.ErrRefused.
func (k *Key) Check(token, worker, pool, proven string) error {
	if worker == "" {
		return fmt.Errorf("%w: a worker has a name", job.ErrRefused)
	}
	for _, key := range k.tokens {
		old := Key{tokens: [][]byte{key}}
		switch {
		case strings.HasPrefix(token, workerToken):
			if hmac.Equal([]byte(token), []byte(old.Token(worker, pool))) {
				return nil
			}
		case strings.HasPrefix(token, joinToken):
			if proven != "" && strings.HasSuffix(worker, suffix(proven)) && hmac.Equal([]byte(token), []byte(old.JoinToken(pool))) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: the token does not belong to worker %q of pool %q", job.ErrRefused, worker, pool)
}

// code returns an HMAC of words with unambiguous boundaries.
func code(key []byte, words ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, w := range words {
		fmt.Fprintf(mac, "%d:%s,", len(w), w)
	}
	return mac.Sum(nil)
}

// Worker is the identity of a worker.
type Worker struct {
	ID, Pool string
	Token    string        // empty: the server requires none
	Key      nkeys.KeyPair // with a join token; otherwise nil
}

// NewWorker completes the identity of a worker with a token. A join token extends its name.
func NewWorker(name, pool, token string) (Worker, error) {
	w := Worker{ID: name, Pool: pool, Token: token}
	if !strings.HasPrefix(token, joinToken) {
		return w, nil
	}
	var err error
	if w.Key, err = nkeys.CreateUser(); err != nil {
		return w, fmt.Errorf("make a key: %w", err)
	}
	public, err := w.Key.PublicKey()
	w.ID += suffix(public)
	return w, err
}

// Joined reports whether a worker's name has the form of a join token's names. All joined workers
// have this form; an operator may also choose such a name for a worker with its own token.
func Joined(worker string) bool { return joinedName.MatchString(worker) }

var joinedName = regexp.MustCompile(`-[0-9a-f]{20}$`)

// suffix returns the 80-bit fingerprint of a key for names.
func suffix(public string) string {
	sum := sha256.Sum256([]byte(public))
	return "-" + hex.EncodeToString(sum[:10])
}
