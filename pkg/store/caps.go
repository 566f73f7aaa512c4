package store

import (
	"maps"
	"slices"

	"github.com/assay-run/assay/pkg/job"
)

// Cap is one value of a label that a job has and a tenant or a batch caps. Only
// what is capped is kept with a job; the limit is looked up when it is scheduled.
type Cap struct {
	Batch bool // of its batch; else of its tenant, over all batches
	Label string
	Value string
}

// CapsOf returns what of a job with these labels is capped, in one order.
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
