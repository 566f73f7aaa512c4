// Package identity says who is who among the parts of a fleet: from one key, which
// only dispatchers have, come the dispatchers' own name at the NATS server, the
// signature under what workers may do there, and the tokens that workers come with.
//
// Nothing is stored: a token is a code over what it allows. A worker's token lets one
// worker in under one name. A join token lets any number of workers of a pool in,
// each under a name that ends in the fingerprint of a key that it has made itself, so
// that none can take another one's.
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
	tokens             [][]byte // the first makes tokens, all of them are good
}

// keyBytes is the length of the secret.
const keyBytes = 32

// NewKey returns a fresh key's text.
func NewKey() string {
	var raw [keyBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	return base64.StdEncoding.EncodeToString(raw[:])
}

// ParseKey reads 32 bytes in base64, or several of those with commas between them: then
// tokens are made with the second, and the third and further ones are good for tokens that
// are still in use. What the NATS server knows comes from the first alone, so tokens can be
// made anew without a change there. The error wraps job.ErrInvalid and shows nothing of
// the text.
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

// RotateKey returns the text of a key whose tokens are new, under which those of the
// key text are good until it is rotated again. Older ones are good no longer.
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
		panic(err) // the length is a constant that it can do
	}
	return out
}

// Issuer signs what workers may do. The NATS server is told its public half.
func (k *Key) Issuer() nkeys.KeyPair { return k.issuer }

// Dispatcher is the dispatchers' own key at the NATS server.
func (k *Key) Dispatcher() nkeys.KeyPair { return k.dispatcher }

// Public returns what the configuration of the NATS server needs; none of it is secret.
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

// Name makes a name that says what it is of, and that nobody can guess without the key.
func (k *Key) Name(of string) string { return hex.EncodeToString(code(k.names, of))[:32] }

const (
	workerToken = "worker."
	joinToken   = "join."
)

// Token lets a worker of a pool in, under this name and no other.
func (k *Key) Token(worker, pool string) string {
	return workerToken + base64.RawURLEncoding.EncodeToString(code(k.tokens[0], "worker", worker, pool))
}

// JoinToken lets workers of a pool in under names that they make with Worker.Join.
func (k *Key) JoinToken(pool string) string {
	return joinToken + base64.RawURLEncoding.EncodeToString(code(k.tokens[0], "join", pool))
}

// Check says whether who comes with a token may be that worker of that pool. proven is
// the public key that it has signed with, "" if it has not. The error wraps job.ErrRefused.
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
	return fmt.Errorf("%w: the token is not that of worker %q of pool %q", job.ErrRefused, worker, pool)
}

// code is an HMAC over words, of which none can run into the next.
func code(key []byte, words ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, w := range words {
		fmt.Fprintf(mac, "%d:%s,", len(w), w)
	}
	return mac.Sum(nil)
}

// Worker is who a worker is.
type Worker struct {
	ID, Pool string
	Token    string        // "": it comes to a server that asks for none
	Key      nkeys.KeyPair // with a join token; else nil
}

// NewWorker completes the identity of a worker that comes with a token. With a join
// token its name becomes longer.
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

// Joined reports whether a worker's name is such as NewWorker makes with a join token. A worker with a token
// of its own may have one, too, if somebody named it so; one that joined has no other.
func Joined(worker string) bool { return joinedName.MatchString(worker) }

var joinedName = regexp.MustCompile(`-[0-9a-f]{20}$`)

// suffix is the fingerprint of a key in names: 80 bits of it.
func suffix(public string) string {
	sum := sha256.Sum256([]byte(public))
	return "-" + hex.EncodeToString(sum[:10])
}
