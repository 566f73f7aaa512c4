package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/assay-run/assay/pkg/fleet"
)

// SourceReport is a report as it is stored.
type SourceReport struct {
	Source string
	At     time.Time     // by the store's clock
	Age    time.Duration // the same
	Body   json.RawMessage
}

// Health stores the reports of dispatchers about themselves, and reads those of Postgres.
type Health interface {
	// PutReport replaces the report of a source. Its commit does not wait for the disk.
	PutReport(ctx context.Context, source string, body json.RawMessage) error
	// Reports returns the reports that are not older than age. Reports are removed after an hour.
	Reports(ctx context.Context, age time.Duration) ([]SourceReport, error)
	// Usage counts the batches and sessions of each tenant that are not over.
	Usage(ctx context.Context) (map[string]fleet.Usage, error)
	// Database returns the state of Postgres. The error is job.ErrUnavailable if it does not answer.
	Database(ctx context.Context) (fleet.Database, error)
}
