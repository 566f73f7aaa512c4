package read

import (
	"cmp"
	"sync"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// Reader answers questions. All methods are safe for concurrent use.
type Reader struct {
	db       *pg.DB
	jobsLook int64 // jobs in which a page of a list is looked for

	spansMu sync.Mutex
	spans   map[job.ID]pg.Days // of sealed batches
}

// New is over a database that is open. A page of a list is looked for in so many jobs;
// 0: as many as there should be.
func New(db *pg.DB, look int64) *Reader {
	return &Reader{db: db, jobsLook: cmp.Or(look, jobsLook)}
}
