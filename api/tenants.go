package api

import (
	"encoding/json"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// TenantGrant is the complete set of a tenant's limits. Missing fields get their defaults.
type TenantGrant struct {
	Weight     float64         `json:"weight,omitempty"`      // 0: 1
	MaxRunning int             `json:"max_running,omitempty"` // 0: unlimited
	LabelCaps  job.LabelCaps   `json:"label_caps,omitempty"`
	Ceiling    json.RawMessage `json:"ceiling,omitempty"`
	Reason     string          `json:"reason,omitempty"`
}

// TenantStatus is a tenant and its current work.
type TenantStatus struct {
	Tenant     fleet.Tenant `json:"tenant"`
	Queued     int64        `json:"queued"`
	Dispatched int64        `json:"dispatched"`
	Running    int64        `json:"running"`
	AtLeast    bool         `json:"at_least,omitempty"` // the queue is too long for an exact count
	// OldestSeconds is the age of the first job of its queues.
	OldestSeconds float64 `json:"oldest_seconds"`
	// Quotas are its limits and how much of them is used, the most used first.
	Quotas []fleet.Quota `json:"quotas"`
}

// TenantList lists the tenants that the caller may see.
type TenantList struct {
	Tenants []TenantStatus `json:"tenants"`
}
