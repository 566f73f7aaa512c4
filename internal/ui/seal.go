package ui

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// errSealed is a text that this key did not seal, or whose time is over.
var errSealed = errors.New("not a sealed text of this fleet")

// sealer makes texts that nobody else can read or make.
type sealer struct {
	aead cipher.AEAD
	mac  []byte
	now  func() time.Time
}

// newSealer makes one of a key that all dispatchers of a fleet have.
func newSealer(key []byte, now func() time.Time) (*sealer, error) {
	block, err := aes.NewCipher(derive(key, "seal"))
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return &sealer{aead: aead, mac: derive(key, "forms"), now: now}, nil
}

func derive(key []byte, purpose string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("assay web page: " + purpose))
	return h.Sum(nil)
}

type sealed struct {
	Until int64           `json:"u"` // Unix seconds
	Value json.RawMessage `json:"v"`
}

// seal returns a text that says v, for one purpose, until ttl has gone by.
func (s *sealer) seal(purpose string, v any, ttl time.Duration) (string, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	plain, err := json.Marshal(sealed{Until: s.now().Add(ttl).Unix(), Value: value})
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // which never fails
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, plain, []byte(purpose))), nil
}

// open reads what a text says into v, a pointer. The error is errSealed.
func (s *sealer) open(purpose, text string, v any) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < s.aead.NonceSize() {
		return errSealed
	}
	n := s.aead.NonceSize()
	plain, err := s.aead.Open(nil, raw[:n], raw[n:], []byte(purpose))
	if err != nil {
		return errSealed
	}
	var b sealed
	if json.Unmarshal(plain, &b) != nil || s.now().Unix() >= b.Until || json.Unmarshal(b.Value, v) != nil {
		return errSealed
	}
	return nil
}

// form is the text that forms of a visit carry.
func (s *sealer) form(visit string) string {
	h := hmac.New(sha256.New, s.mac)
	h.Write([]byte(visit))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// formOf reports whether a form is of this visit.
func (s *sealer) formOf(visit, text string) bool {
	return visit != "" && hmac.Equal([]byte(text), []byte(s.form(visit)))
}
