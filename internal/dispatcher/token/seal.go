package token

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

// ErrSealed reports a text that this key did not seal or that has expired.
var ErrSealed = errors.New("not a sealed text of this fleet")

// Sealer encrypts and authenticates the data in cookies and forms of the web page.
type Sealer struct {
	aead cipher.AEAD
	mac  []byte
	now  func() time.Time
}

// NewSealer returns a Sealer for the key that all dispatchers of a fleet share.
func NewSealer(key []byte, now func() time.Time) (*Sealer, error) {
	block, err := aes.NewCipher(derive(key, "seal"))
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return &Sealer{aead: aead, mac: derive(key, "forms"), now: now}, nil
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

// Seal returns a text with v for one purpose. It expires after ttl.
func (s *Sealer) Seal(purpose string, v any, ttl time.Duration) (string, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	plain, err := json.Marshal(sealed{Until: s.now().Add(ttl).Unix(), Value: value})
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, plain, []byte(purpose))), nil
}

// Open decodes the value of a text into v, a pointer. The only error is ErrSealed.
func (s *Sealer) Open(purpose, text string, v any) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < s.aead.NonceSize() {
		return ErrSealed
	}
	n := s.aead.NonceSize()
	plain, err := s.aead.Open(nil, raw[:n], raw[n:], []byte(purpose))
	if err != nil {
		return ErrSealed
	}
	var b sealed
	if json.Unmarshal(plain, &b) != nil || s.now().Unix() >= b.Until || json.Unmarshal(b.Value, v) != nil {
		return ErrSealed
	}
	return nil
}

// Form returns the token of a visit's forms.
func (s *Sealer) Form(visit string) string {
	h := hmac.New(sha256.New, s.mac)
	h.Write([]byte(visit))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// FormOf reports whether text is the token of this visit's forms.
func (s *Sealer) FormOf(visit, text string) bool {
	return visit != "" && hmac.Equal([]byte(text), []byte(s.Form(visit)))
}
