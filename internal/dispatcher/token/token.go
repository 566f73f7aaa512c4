// Package token makes texts with an expiry. Only a holder of the fleet's key can make one. A Keeper signs texts, which
// every holder can read. A Sealer encrypts them.
package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrInvalid reports a text that this key did not sign for this purpose. ErrExpired reports a
// signed text whose time is over.
var (
	ErrInvalid = errors.New("the token is not from this fleet, or for another purpose")
	ErrExpired = errors.New("the token has expired")
)

// version is the prefix of every text. Another signing method needs another version.
const version = "v1"

// MaxLen limits the length of a text that Open accepts.
const MaxLen = 8 << 10

// Keeper signs and verifies texts. All dispatchers of a fleet have the same key.
type Keeper struct {
	Key []byte
	Now func() time.Time // optional, for tests
}

// body is the signed content.
type body struct {
	Expires int64           `json:"x"` // Unix seconds
	Value   json.RawMessage `json:"v"`
}

// Sign returns a text that carries v for a purpose and expires after ttl. The text is safe in a URL
// and a cookie. v must be encodable as JSON.
func (k Keeper) Sign(purpose string, v any, ttl time.Duration) string {
	value, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("token: sign %T: %v", v, err)) // a programming error, for any value
	}
	b, err := json.Marshal(body{Expires: k.now().Add(ttl).Unix(), Value: value})
	if err != nil {
		panic(fmt.Sprintf("token: sign: %v", err))
	}
	said := version + "." + base64.RawURLEncoding.EncodeToString(b)
	return said + "." + base64.RawURLEncoding.EncodeToString(k.mac(purpose, said))
}

// Open verifies a text and decodes it into the value that v points to. The error is ErrInvalid or
// ErrExpired.
func (k Keeper) Open(purpose, text string, v any) error {
	dot := strings.LastIndexByte(text, '.')
	if len(text) > MaxLen || dot < 0 || !strings.HasPrefix(text, version+".") {
		return ErrInvalid
	}
	mac, err := base64.RawURLEncoding.Strict().DecodeString(text[dot+1:])
	if err != nil || !hmac.Equal(mac, k.mac(purpose, text[:dot])) {
		return ErrInvalid
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text[:dot], version+"."))
	if err != nil {
		return ErrInvalid
	}
	var b body
	if err := json.Unmarshal(raw, &b); err != nil {
		return ErrInvalid
	}
	if k.now().Unix() >= b.Expires {
		return ErrExpired
	}
	if err := json.Unmarshal(b.Value, v); err != nil {
		return ErrInvalid
	}
	return nil
}

// mac signs with a separate key for each purpose, so a text is valid for one purpose only.
func (k Keeper) mac(purpose, said string) []byte {
	if len(k.Key) < sha256.Size {
		panic("token: a Keeper needs a key of 32 bytes")
	}
	return sum(sum(k.Key, "assay token "+version+" "+purpose), said)
}

func sum(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func (k Keeper) now() time.Time {
	if k.Now != nil {
		return k.Now()
	}
	return time.Now()
}
