package httpapi

import (
	"log/slog"
	"net/http"
)

// passwordIsToken accepts a token in place of a password. Clients without a setting for headers can only send it in a
// URL, such as http://any:TOKEN@host/.
func passwordIsToken(r *http.Request) {
	if _, token, ok := r.BasicAuth(); ok {
		r.Header.Set("Authorization", "Bearer "+token)
	}
}

// Secret is text that logs and dumps redact.
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
