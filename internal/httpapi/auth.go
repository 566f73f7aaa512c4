package httpapi

import (
	"log/slog"
	"net/http"
)

// passwordIsToken has a token that is sent as a password be taken as one: an address such as http://any:TOKEN@host/ is the
// only place for it in clients that have no setting for headers.
func passwordIsToken(r *http.Request) {
	if _, token, ok := r.BasicAuth(); ok {
		r.Header.Set("Authorization", "Bearer "+token)
	}
}

// Secret is text that no log and no dump shows.
type Secret string

const redacted = "REDACTED"

// String hides the text.
func (Secret) String() string { return redacted }

// GoString hides the text from %#v.
func (Secret) GoString() string { return redacted }

// LogValue hides the text from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the text from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
