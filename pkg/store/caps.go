package store

import (
	"maps"
	"slices"

	"github.com/assay-run/assay/pkg/job"
)

// Cap is one label value of a job that a tenant or a batch caps. The job stores only these labels; the scheduler looks
// the limit up.
type Cap struct {
	Batch bool // of its batch; else of its tenant, over all batches
	Label string
	Value string
}

// CapsOf returns the capped labels of a job, in a fixed order.
func CapsOf(labels map[string]string, tenant, batch job.LabelCaps) (caps []Cap) {
	if len(tenant)+len(batch) == 0 {
		return nil
	}
	add := func(batch bool, capped job.LabelCaps) {
		for _, label := range slices.Sorted(maps.Keys(capped)) {
			if value, ok := labels[label]; ok {
				caps = append(caps, Cap{batch, label, value})
			}
		}
	}
	add(false, tenant)
	add(true, batch)
	return caps
}
