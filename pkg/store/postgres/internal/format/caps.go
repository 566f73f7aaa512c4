package format

import (
	"hash/fnv"
	"strings"

	"github.com/assay-run/assay/pkg/store"
)

// Lane writes down what of a job is capped. Labels have no control characters,
// so tabs and line ends part them. The lane mixes the caps: one that is full
// would otherwise put all lanes with its value in a row, to be stepped over one by
// one. Two sets of caps in one lane by chance only wait for each other.
func Lane(caps []store.Cap) (lane int32, text *string) {
	if len(caps) == 0 {
		return 0, nil
	}
	lines := make([]string, len(caps))
	for i, c := range caps {
		scope := "t"
		if c.Batch {
			scope = "b"
		}
		lines[i] = scope + "\t" + c.Label + "\t" + c.Value
	}
	joined := strings.Join(lines, "\n")
	h := fnv.New32a()
	_, _ = h.Write([]byte(joined)) // never fails
	return max(int32(h.Sum32()>>1), 1), &joined
}

// CapKey is SQL for what a cap counts: a line of caps, of one tenant or one batch.
func CapKey(row, line string) string {
	return row + `.tenant_id || CASE WHEN ` + line + ` LIKE 'b%' THEN ` + row + `.batch_id::text ELSE '' END || ` + line
}

// CapRoom is SQL for how many more jobs a line of caps allows, NULL if its label
// is not capped any more. row has the caps of its tenant and batch; $held is a JSON
// object, CapKey → jobs that are dispatched or running.
func CapRoom(row, line, held string) string {
	return `(CASE WHEN ` + line + ` LIKE 'b%' THEN ` + row + `.batch_caps ELSE ` + row + `.tenant_caps END
			->> split_part(` + line + `, E'\t', 2))::bigint - coalesce((` + held + ` ->> (` + CapKey(row, line) + `))::bigint, 0)`
}
