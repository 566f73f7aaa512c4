package pg

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// CapsOrNull is NULL for no caps.
func CapsOrNull(caps job.LabelCaps) *string {
	if len(caps) == 0 {
		return nil
	}
	raw, err := json.Marshal(caps)
	if err != nil {
		panic(err) // numbers always marshal
	}
	text := string(raw)
	return &text
}

// LabelsText is NULL for no labels.
func LabelsText(labels map[string]string) *string {
	if len(labels) == 0 {
		return nil
	}
	raw, err := json.Marshal(labels)
	if err != nil {
		panic(err) // strings always marshal
	}
	text := string(raw)
	return &text
}

// CleanText removes bytes that the server cannot store in a text: NUL bytes and broken UTF-8. It is for messages, which
// are for people.
func CleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// TextOrNull is NULL for no JSON.
func TextOrNull(raw json.RawMessage) *string {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	text := string(raw)
	return &text
}

// OrZero is the zero time for NULL.
func OrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// SinceOf is NULL for a worker that has not reported its start.
func SinceOf(i store.Incarnation) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: i.Time(), Valid: i != 0}
}
