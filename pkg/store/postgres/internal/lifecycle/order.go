package lifecycle

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store/postgres/internal/pg"
)

// byID returns the indices of n items in the order of their ids, the one order in
// which rows are locked, and the first id. Statements carry it beside the ids
// themselves: it lets the server skip the partitions of earlier days before it
// touches them, which it cannot see from a join. (An upper bound would make a scan
// of the range look cheaper to the planner than lookups: see TestPlans.)
func byID(n int, id func(int) job.ID) (order []int, first pgtype.UUID) {
	if n == 0 {
		return nil, pg.UUID(pg.NilID)
	}
	order = make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(id(a), id(b)) })
	return order, pg.UUID(id(order[0]))
}
