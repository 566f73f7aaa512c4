package pg

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

const day = 24 * time.Hour

// Days are the ids of one or several whole days: from First on, less than Below.
type Days struct{ First, Below job.ID }

// DayOf returns the day of an id. Of a text that is no id, it is a day without ids.
func DayOf(id job.ID) Days { return DaysBetween(id, id) }

// DaysBetween returns the days from the day of the first id to the day of the last.
func DaysBetween(first, last job.ID) Days {
	if first.Time().IsZero() || last.Time().IsZero() {
		return Days{NilID, NilID}
	}
	d := Days{First: dayStart(first.Time()), Below: dayStart(last.Time().Add(day))}
	if d.Below <= last { // ids have 48 bits of milliseconds, and these are on the last of their days
		d.Below = LastID
	}
	return d
}

func dayStart(t time.Time) job.ID { return job.FirstIDAt(t.UTC().Truncate(day)) }

// In returns SQL that confines a column of ids to the days. The bounds are constants, so the planner leaves out the
// partitions of other days, and the server neither locks nor opens them. With arguments as bounds it locks every
// partition of the table, and a few such statements at once exceed its lock table. In a join, the planner may take
// these bounds for a good index condition: put a table that is joined by id into a LATERAL with OFFSET 0 (see
// TestPlans).
func (d Days) In(column string) string {
	if d.First >= d.Below {
		return "false"
	}
	return fmt.Sprintf("%[1]s >= '%[2]s' AND %[1]s < '%[3]s'", column, d.First, d.Below)
}

// Count returns how many days they are.
func (d Days) Count() int {
	return int(d.Below.Time().Sub(d.First.Time()).Round(day) / day)
}

// OnDay returns SQL that confines a column of ids to the day of one.
func OnDay(column string, id job.ID) string { return DayOf(id).In(column) }

// ByDay groups ids by their days, the oldest first. Within a day they keep their order.
func ByDay[T any](items []T, id func(T) job.ID) (days []Days, of map[Days][]T) {
	of = map[Days][]T{}
	for _, item := range items {
		d := DayOf(id(item))
		if of[d] == nil {
			days = append(days, d)
		}
		of[d] = append(of[d], item)
	}
	slices.SortFunc(days, func(a, b Days) int { return cmp.Compare(a.First, b.First) })
	return days, of
}
