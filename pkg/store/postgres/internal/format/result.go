package format

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// ResultColumns is the columns that a Result scans.
const ResultColumns = `r.id, r.batch_id, r.seq, r.lease, r.outcome, r.reason, coalesce(r.worker, ''), r.identity,
	coalesce(r.attempts, ''), r.body`

// Result scans results into the same memory, one after the other.
type Result struct {
	ID, batch                pgtype.UUID
	Seq                      store.Cursor
	lease                    job.Lease
	Outcome                  job.Outcome
	reason                   job.Reason
	Worker                   string
	identity, attempts, body []byte
}

// Targets are where a row of ResultColumns is scanned to.
func (r *Result) Targets() []any {
	return []any{&r.ID, &r.batch, &r.Seq, &r.lease, &r.Outcome, &r.reason, &r.Worker, &r.identity, &r.attempts, &r.body}
}

// JSON concatenates the record: the identity from the store, then the worker's members. It parses nothing.
func (r *Result) JSON() json.RawMessage {
	b := make([]byte, 0, 256+len(r.identity)+len(r.attempts)+len(r.body))
	b = append(b, `{"id":"`...)
	b = append(b, pg.JobID(r.ID)...)
	if id := pg.BatchID(r.batch); id != "" {
		b = append(b, `","batch_id":"`...)
		b = append(b, id...)
	}
	b = append(b, `",`...)
	b = append(b, r.identity...)
	b = append(b, `"state":"`...)
	b = append(b, r.Outcome.State()...)
	b = append(b, `","outcome":"`...)
	b = append(b, r.Outcome...)
	b = append(b, `","attempts":[`...)
	b = append(b, r.attempts...)
	if r.lease > 0 {
		if len(r.attempts) > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"lease":`...)
		b = strconv.AppendInt(b, int64(r.lease), 10)
		b = append(b, `,"worker":`...)
		worker, _ := json.Marshal(r.Worker) // a string always marshals
		b = append(b, worker...)
		b = append(b, `,"outcome":"`...)
		b = append(b, r.Outcome...)
		b = append(b, `","reason":"`...)
		b = append(b, r.reason...)
		b = append(b, `"}`...)
	}
	b = append(b, ']')
	if len(r.body) > 0 {
		b = append(b, ',')
		b = append(b, r.body...)
	}
	return append(b, '}')
}

// PerOutcome repeats a piece of SQL for every outcome; batch_counts has a column
// of each name.
func PerOutcome(format string) string {
	parts := make([]string, len(job.Outcomes))
	for i, o := range job.Outcomes {
		parts[i] = fmt.Sprintf(format, o)
	}
	return strings.Join(parts, ", ")
}
