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

// What a dispatcher says to one worker (specs, secrets, code of sessions) is sealed to
// a key that the worker has made for this process: whoever reads along, at the server
// or in an inbox, sees ciphertext. The worker's public key comes with what it says
// (keyHeader), on a subject that is its own. A sealed body is
//
//	'S' | public key of the dispatcher, 32 bytes | nonce and ciphertext of AES-256-GCM
//
// under a key that both sides derive by X25519 and HKDF. It costs a key agreement once
// for each pair of processes, and after that what AES costs.
const (
	keyHeader  = "Assay-Key"
	sealed     = 'S'
	publicSize = 32
	mostPeers  = 1 << 14 // keys of processes that are remembered; above, all are forgotten
)

// errSealed says that a body cannot be opened: it was sealed to another process, the
// one that had this name before.
var errSealed = fmt.Errorf("%w: not sealed to this process", job.ErrUnavailable)

// sealer is the key of this process, and what it has agreed with others.
type sealer struct {
	private *ecdh.PrivateKey
	public  string // base64

	mu    sync.Mutex
	peers map[[publicSize]byte]cipher.AEAD
}

func newSealer() *sealer {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // the random source never fails
	}
	return &sealer{
		private: private, public: base64.RawURLEncoding.EncodeToString(private.PublicKey().Bytes()),
		peers: map[[publicSize]byte]cipher.AEAD{},
	}
}

// with returns the cipher that only the owner of a public key shares.
func (s *sealer) with(public [publicSize]byte, toThem bool) (cipher.AEAD, error) {
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

// seal returns body for the owner of a public key alone.
func (s *sealer) seal(public [publicSize]byte, body []byte) ([]byte, error) {
	c, err := s.with(public, true)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", job.ErrInvalid, keyHeader, err)
	}
	out := make([]byte, 0, 1+publicSize+len(body)+c.Overhead())
	out = append(append(out, sealed), s.private.PublicKey().Bytes()...)
	return c.Seal(out, nil, body, nil), nil
}

// open returns what seal was given by whoever has sealed it. It opens nothing else: a
// dispatcher seals all that it says.
func (s *sealer) open(body []byte) ([]byte, error) {
	if len(body) < 1+publicSize || body[0] != sealed {
		return nil, errSealed
	}
	c, err := s.with([publicSize]byte(body[1:1+publicSize]), false)
	if err != nil {
		return nil, errors.Join(errSealed, err)
	}
	out, err := c.Open(nil, nil, body[1+publicSize:], nil)
	if err != nil {
		return nil, errSealed
	}
	return out, nil
}

// seals knows the keys of the workers.
type seals struct {
	mu   sync.Mutex
	keys map[string][publicSize]byte // by worker
}

func newSeals() *seals { return &seals{keys: map[string][publicSize]byte{}} }

func (s *seals) of(worker string) (key [publicSize]byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok = s.keys[worker]
	return key, ok
}

// note remembers the key that a worker has shown, and returns it.
func (s *seals) note(worker, text string) (key [publicSize]byte, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != publicSize {
		return key, job.Invalid(keyHeader, "is no key")
	}
	key = [publicSize]byte(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.keys[worker]; !known && len(s.keys) >= mostPeers {
		clear(s.keys)
	}
	s.keys[worker] = key
	return key, nil
}

// decodeSignature reads a signature as clients send it.
func decodeSignature(text string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(text) }

func (s *seals) forget(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, worker)
}
