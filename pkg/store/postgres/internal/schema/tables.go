package schema

import (
	"sync"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Tables is the tables of an open database. All methods are safe for concurrent use.
type Tables struct {
	db    *pg.DB
	ended sync.Map // day (time.Time) that is over → dayEnd

	spansMu sync.Mutex
	spanned job.ID // the last batch that noteSpans need not look at again
}

// New is over a database that is open.
func New(db *pg.DB) *Tables { return &Tables{db: db} }
