package control

import "log/slog"

// Secrets are what one job is told, by environment variable.
type Secrets map[string]Secret

// Secret is text that is sent to the one worker that runs the job, and that no
// log and no dump shows.
type Secret string

const redacted = "REDACTED"

// String hides the text.
func (Secret) String() string { return redacted }

// GoString hides the text from %#v.
func (Secret) GoString() string { return redacted }

// LogValue hides the text from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
