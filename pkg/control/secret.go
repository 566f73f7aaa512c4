package control

import "log/slog"

// Secrets are the secrets of one job, by environment variable.
type Secrets map[string]Secret

// Secret is text that is sent only to the worker that runs the job. Logs and dumps do not show it.
type Secret string

const redacted = "REDACTED"

// String hides the text.
func (Secret) String() string { return redacted }

// GoString hides the text from %#v.
func (Secret) GoString() string { return redacted }

// LogValue hides the text from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
