package fleet

import (
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Aside is the end of a job that the database refused. It is kept until an operator records or
// drops it.
type Aside struct {
	ID       job.ID      `json:"id"` // grows with time
	At       time.Time   `json:"at"`
	Call     string      `json:"call"` // the refused statement
	Job      job.ID      `json:"job"`
	Batch    job.ID      `json:"batch,omitempty"`
	Tenant   string      `json:"tenant"`
	Lease    job.Lease   `json:"lease,omitempty"`
	Worker   string      `json:"worker,omitempty"`
	Outcome  job.Outcome `json:"outcome"` // the outcome that a retry records
	Ended    AsideEnd    `json:"ended"`
	Bytes    int64       `json:"bytes"` // of the kept result; 0: the record has it, or there is none
	SQLState string      `json:"sqlstate"`
	Error    string      `json:"error"` // in PostgreSQL's words
}

// AsideEnd is how far the end of an Aside's job was processed.
type AsideEnd string

// The ends.
const (
	AsideRecorded   AsideEnd = "recorded"   // over, recorded and counted
	AsideUncounted  AsideEnd = "uncounted"  // over and recorded, but its batch does not count it
	AsideCounted    AsideEnd = "counted"    // over and counted, but without a result
	AsideUnrecorded AsideEnd = "unrecorded" // over, but neither recorded nor counted
	AsideHeld       AsideEnd = "held"       // not over: the reaper leaves it alone
)
