package pg

import (
	"fmt"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// OnDay is SQL for a column that has the id to be of the id's day. It makes a statement
// for each day of which something is read, in whose plan there is one partition.
func OnDay(column string, id job.ID) string {
	made := id.Time()
	if made.IsZero() || made.Year() > 9999 { // no row has it
		return "true"
	}
	day := made.UTC().Truncate(24 * time.Hour)
	return fmt.Sprintf("%[1]s >= '%[2]s' AND %[1]s < '%[3]s'", column, job.FirstIDAt(day), job.FirstIDAt(day.AddDate(0, 0, 1)))
}

// SinceDay is SQL for a column that has ids of the day before the id's, or later: those
// of a batch's jobs, whichever dispatcher's clock made them.
func SinceDay(column string, batch job.ID) string {
	made := batch.Time()
	if made.IsZero() {
		return "true"
	}
	return fmt.Sprintf("%s >= '%s'", column, job.FirstIDAt(made.UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)))
}
