package jetstream

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"

	"github.com/assay-run/assay/pkg/job"
)

// A dispatcher seals its messages to a worker (specs, secrets, code of sessions) to a key that the
// worker creates for its process. An eavesdropper at the server or in an inbox sees ciphertext
// only. The worker's messages carry its public key (keyHeader), on a subject of its own. A sealed body
// is
//
//	'S' | public key of the dispatcher, 32 bytes | nonce and ciphertext of AES-256-GCM
//
// under a key that both sides derive by X25519 and HKDF. It costs one key agreement for each pair
// of processes, and then AES.
const (
	// keyHeader carries a process's public key.
	keyHeader  = "Assay-Key"
	sealed     = 'S'
	publicSize = 32
	mostPeers  = 1 << 14 // keys of processes in memory; above this number all are dropped
)

// publicKey is the public key of one process.
type publicKey [publicSize]byte

// errSealed means that a body was sealed to another process, usually the previous one with this
// name.
var errSealed = fmt.Errorf("%w: not sealed to this process", job.ErrUnavailable)

// sealer holds the key of this process and the shared keys with others.
type sealer struct {
	private *ecdh.PrivateKey
	Public  string // base64

	mu    sync.Mutex
	peers map[publicKey]cipher.AEAD
}

// newSealer returns a sealer with a new key.
func newSealer() *sealer {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // the random source never fails
	}
	return &sealer{
		private: private, Public: base64.RawURLEncoding.EncodeToString(private.PublicKey().Bytes()),
		peers: map[publicKey]cipher.AEAD{},
	}
}

// with returns the cipher shared with the owner of a public key.
func (s *sealer) with(public publicKey, toThem bool) (cipher.AEAD, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.peers[public]; c != nil {
		return c, nil
	}
	peer, err := ecdh.X25519().NewPublicKey(public[:])
	if err != nil {
		return nil, err
	}
	secret, err := s.private.ECDH(peer)
	if err != nil {
		return nil, err
	}
	// The key derivation includes both public keys, the sender's first.
	info := string(public[:]) + string(s.private.PublicKey().Bytes())
	if toThem {
		info = string(s.private.PublicKey().Bytes()) + string(public[:])
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "assay seal "+info, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	c, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	if len(s.peers) >= mostPeers {
		clear(s.peers)
	}
	s.peers[public] = c
	return c, nil
}

// Seal encrypts body to the owner of a public key.
func (s *sealer) Seal(public publicKey, body []byte) ([]byte, error) {
	c, err := s.with(public, true)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", job.ErrInvalid, keyHeader, err)
	}
	out := make([]byte, 0, 1+publicSize+len(body)+c.Overhead())
	out = append(append(out, sealed), s.private.PublicKey().Bytes()...)
	return c.Seal(out, nil, body, nil), nil
}

// Open decrypts the output of Seal. It rejects plain text, because dispatchers seal every message.
func (s *sealer) Open(body []byte) ([]byte, error) {
	if len(body) < 1+publicSize || body[0] != sealed {
		return nil, errSealed
	}
	c, err := s.with(publicKey(body[1:1+publicSize]), false)
	if err != nil {
		return nil, errors.Join(errSealed, err)
	}
	out, err := c.Open(nil, nil, body[1+publicSize:], nil)
	if err != nil {
		return nil, errSealed
	}
	return out, nil
}

// workerKeys holds the keys of the workers.
type workerKeys struct {
	mu   sync.Mutex
	keys map[string]publicKey // by worker
}

// newWorkerKeys returns an empty workerKeys.
func newWorkerKeys() *workerKeys { return &workerKeys{keys: map[string]publicKey{}} }

// Of returns the key of a worker, if it is known.
func (s *workerKeys) Of(worker string) (key publicKey, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok = s.keys[worker]
	return key, ok
}

// Note stores and returns the key in a worker's message.
func (s *workerKeys) Note(worker, text string) (key publicKey, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != publicSize {
		return key, job.Invalid(keyHeader, "is no key")
	}
	key = publicKey(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.keys[worker]; !known && len(s.keys) >= mostPeers {
		clear(s.keys)
	}
	s.keys[worker] = key
	return key, nil
}

// Forget drops a worker's key, so that it is requested again.
func (s *workerKeys) Forget(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, worker)
}
