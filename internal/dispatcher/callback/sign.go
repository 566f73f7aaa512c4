package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a callback (Standard Webhooks).
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// minKey is the minimum length of a signing key in bytes. A shorter key could be guessed from a
// signature.
const minKey = 16

// keyOf returns the signing key in a secret's value.
func keyOf(value string) ([]byte, error) {
	key := []byte(value)
	if text, ok := strings.CutPrefix(value, "whsec_"); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, errors.New("is not base64 after whsec_")
		}
	}
	if len(key) < minKey {
		return nil, fmt.Errorf("is too short to sign: it must have %d bytes or more", minKey)
	}
	return key, nil
}

// Signature returns the value of HeaderSignature.
func Signature(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// sign adds the headers to a request. With an empty key it omits the signature.
func sign(h http.Header, key []byte, id string, at time.Time, body []byte) {
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	if len(key) > 0 {
		h.Set(HeaderSignature, Signature(key, id, at, body))
	}
}
