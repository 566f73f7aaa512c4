package postgres

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// resultColumns is what scanResult reads.
const resultColumns = `r.id, r.batch_id, r.seq, r.lease, r.outcome, r.reason, coalesce(r.worker, ''), r.identity,
	coalesce(r.attempts, ''), r.body`

// resultRow scans results into the same memory, one after the other.
type resultRow struct {
	id, batch                pgtype.UUID
	seq                      store.Cursor
	lease                    job.Lease
	outcome                  job.Outcome
	reason                   job.Reason
	worker                   string
	identity, attempts, body []byte
}

func (r *resultRow) targets() []any {
	return []any{&r.id, &r.batch, &r.seq, &r.lease, &r.outcome, &r.reason, &r.worker, &r.identity, &r.attempts, &r.body}
}

// json puts the record together: the identity as the store knows it, then the
// members of the worker. Nothing is parsed.
func (r *resultRow) json() json.RawMessage {
	b := make([]byte, 0, 256+len(r.identity)+len(r.attempts)+len(r.body))
	b = append(b, `{"id":"`...)
	b = append(b, jobID(r.id)...)
	if id := batchID(r.batch); id != "" {
		b = append(b, `","batch_id":"`...)
		b = append(b, id...)
	}
	b = append(b, `",`...)
	b = append(b, r.identity...)
	b = append(b, `"state":"`...)
	b = append(b, r.outcome.State()...)
	b = append(b, `","outcome":"`...)
	b = append(b, r.outcome...)
	b = append(b, `","attempts":[`...)
	b = append(b, r.attempts...)
	if r.lease > 0 {
		if len(r.attempts) > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"lease":`...)
		b = strconv.AppendInt(b, int64(r.lease), 10)
		b = append(b, `,"worker":`...)
		worker, _ := json.Marshal(r.worker) // a string always marshals
		b = append(b, worker...)
		b = append(b, `,"outcome":"`...)
		b = append(b, r.outcome...)
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

// perOutcome repeats a piece of SQL for every outcome; batch_counts has a column
// of each name.
func perOutcome(format string) string {
	parts := make([]string, len(job.Outcomes))
	for i, o := range job.Outcomes {
		parts[i] = fmt.Sprintf(format, o)
	}
	return strings.Join(parts, ", ")
}
