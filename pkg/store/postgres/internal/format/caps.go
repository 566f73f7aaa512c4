package format

import (
	"hash/fnv"
	"strings"

	"github.com/assay-run/assay/pkg/store"
)

// Lane returns the capped labels of a job as text, and their lane. Labels have no control characters, so tabs and line
// ends separate them. The lane is a mix of all caps: otherwise all lanes with the value of a full cap would be
// adjacent, and a scan would step over them one by one. Two sets of caps that share a lane by chance only wait for each
// other.
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

// CapKey is SQL for the key under which a cap counts: a line of caps, of one tenant or one batch.
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
