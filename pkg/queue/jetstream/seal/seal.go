// Package seal has what is said to one process readable by that process alone, whoever passes
// it on.
package seal

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

// What a dispatcher says to one worker (specs, secrets, code of sessions) is sealed to
// a key that the worker has made for this process: whoever reads along, at the server
// or in an inbox, sees ciphertext. The worker's public key comes with what it says
// (Header), on a subject that is its own. A sealed body is
//
//	'S' | public key of the dispatcher, 32 bytes | nonce and ciphertext of AES-256-GCM
//
// under a key that both sides derive by X25519 and HKDF. It costs a key agreement once
// for each pair of processes, and after that what AES costs.
const (
	// Header is where a process shows its public key.
	Header     = "Assay-Key"
	sealed     = 'S'
	publicSize = 32
	mostPeers  = 1 << 14 // keys of processes that are remembered; above, all are forgotten
)

// PublicKey is that of one process.
type PublicKey [publicSize]byte

// ErrSealed says that a body cannot be opened: it was sealed to another process, the
// one that had this name before.
var ErrSealed = fmt.Errorf("%w: not sealed to this process", job.ErrUnavailable)

// Sealer is the key of this process, and what it has agreed with others.
type Sealer struct {
	private *ecdh.PrivateKey
	Public  string // base64

	mu    sync.Mutex
	peers map[PublicKey]cipher.AEAD
}

// New returns one with a key of its own.
func New() *Sealer {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // the random source never fails
	}
	return &Sealer{
		private: private, Public: base64.RawURLEncoding.EncodeToString(private.PublicKey().Bytes()),
		peers: map[PublicKey]cipher.AEAD{},
	}
}

// with returns the cipher that only the owner of a public key shares.
func (s *Sealer) with(public PublicKey, toThem bool) (cipher.AEAD, error) {
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
	// Both keys are part of it, the sender's first.
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

// Seal returns body for the owner of a public key alone.
func (s *Sealer) Seal(public PublicKey, body []byte) ([]byte, error) {
	c, err := s.with(public, true)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", job.ErrInvalid, Header, err)
	}
	out := make([]byte, 0, 1+publicSize+len(body)+c.Overhead())
	out = append(append(out, sealed), s.private.PublicKey().Bytes()...)
	return c.Seal(out, nil, body, nil), nil
}

// Open returns what Seal was given by whoever has sealed it. It opens nothing else: a
// dispatcher seals all that it says.
func (s *Sealer) Open(body []byte) ([]byte, error) {
	if len(body) < 1+publicSize || body[0] != sealed {
		return nil, ErrSealed
	}
	c, err := s.with(PublicKey(body[1:1+publicSize]), false)
	if err != nil {
		return nil, errors.Join(ErrSealed, err)
	}
	out, err := c.Open(nil, nil, body[1+publicSize:], nil)
	if err != nil {
		return nil, ErrSealed
	}
	return out, nil
}

// Keys knows the keys of the workers.
type Keys struct {
	mu   sync.Mutex
	keys map[string]PublicKey // by worker
}

// NewKeys returns one that knows none.
func NewKeys() *Keys { return &Keys{keys: map[string]PublicKey{}} }

// Of returns the key of a worker, if it has shown one.
func (s *Keys) Of(worker string) (key PublicKey, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok = s.keys[worker]
	return key, ok
}

// Note remembers the key that a worker has shown, and returns it.
func (s *Keys) Note(worker, text string) (key PublicKey, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != publicSize {
		return key, job.Invalid(Header, "is no key")
	}
	key = PublicKey(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.keys[worker]; !known && len(s.keys) >= mostPeers {
		clear(s.keys)
	}
	s.keys[worker] = key
	return key, nil
}

// Forget has the worker asked for its key again.
func (s *Keys) Forget(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, worker)
}
