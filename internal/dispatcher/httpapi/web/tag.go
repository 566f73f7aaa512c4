package web

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// WriteTagged responds with JSON and an ETag of its content, or with 304 if the client has it.
func WriteTagged(w http.ResponseWriter, r *http.Request, body []byte) error {
	sum := sha256.Sum256(body)
	tag := `W/"` + hex.EncodeToString(sum[:12]) + `"`
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache") // revalidate each time
	if hasTag(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return WriteRaw(w, http.StatusOK, body)
}

// WriteTaggedJSON is WriteTagged with the JSON of v.
func WriteTaggedJSON(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return WriteTagged(w, r, body)
}

// hasTag reports whether the lists contain tag, by weak comparison (RFC 9110).
func hasTag(lists []string, tag string) bool {
	for _, list := range lists {
		for t := range strings.SplitSeq(list, ",") {
			if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
	}
	return false
}
