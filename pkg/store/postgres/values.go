package postgres

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

func uuids(ids []job.ID) []pgtype.UUID {
	out := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		out[i] = uuid(id)
	}
	return out
}

func jsonOrNull(caps job.LabelCaps) *string {
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

// labelsText is NULL for no labels.
func labelsText(labels map[string]string) *string {
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

// cleanText removes what the server cannot store in a text: NUL bytes and broken
// UTF-8. For messages, which are for people.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func textOrNull(raw json.RawMessage) *string {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	text := string(raw)
	return &text
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// sinceOf is NULL for a worker that has not said when it started.
func sinceOf(i store.Incarnation) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: i.Time(), Valid: i != 0}
}

// uuid converts an id that comes from inside and is therefore valid; a bad one
// becomes NULL, which no row matches.
func uuid(id job.ID) pgtype.UUID {
	var u pgtype.UUID
	_ = u.Scan(string(id))
	return u
}

// nilID stands for "no batch" in the tables.
const nilID job.ID = "00000000-0000-0000-0000-000000000000"

// lastID is the largest of all: a list that begins before it begins with the last.
const lastID job.ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

func batchID(u pgtype.UUID) job.ID {
	if u.Bytes == [16]byte{} {
		return ""
	}
	return jobID(u)
}

func jobID(u pgtype.UUID) job.ID { return job.ID(u.String()) }
