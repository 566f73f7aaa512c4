package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Quota is a limit of a tenant, and its current use. Requests beyond it get 429. The quota of
// running jobs is an exception: further jobs wait.
type Quota struct {
	Name  string `json:"name"` // jobs, batches, sessions or running
	Used  int64  `json:"used"`
	Limit int64  `json:"limit"`
}

// Share returns the used part: 1 at the limit.
func (q Quota) Share() float64 { return float64(q.Used) / float64(max(q.Limit, 1)) }

// Usage counts the open batches and sessions of a tenant.
type Usage struct{ Batches, Sessions int64 }

// QuotaDefaults are the limits of tenants whose ceilings have none. 0: no limit.
type QuotaDefaults struct{ Jobs, Batches int64 }

// QuotasOf returns the limited quotas of a tenant, the most used first.
func QuotasOf(t Tenant, queue TenantQueue, u Usage, d QuotaDefaults) []Quota {
	var ceiling struct {
		Queued   int64 `json:"queued"`
		Batches  int64 `json:"batches"`
		Sessions int64 `json:"sessions"`
	}
	_ = json.Unmarshal(t.Ceiling, &ceiling) // a tenant without a ceiling has the defaults
	all := []Quota{
		{"jobs", queue.Queued + queue.Dispatched + queue.Running, cmp.Or(ceiling.Queued, d.Jobs)},
		{"batches", u.Batches, cmp.Or(ceiling.Batches, d.Batches)},
		{"sessions", u.Sessions, ceiling.Sessions},
		{"running", queue.Dispatched + queue.Running, int64(t.MaxRunning)},
	}
	all = slices.DeleteFunc(all, func(q Quota) bool { return q.Limit == 0 })
	slices.SortStableFunc(all, func(a, b Quota) int { return cmp.Compare(b.Share(), a.Share()) })
	return all
}
