package api

import (
	"encoding/json"

	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// TenantGrant is what a tenant is granted: all of it, so what is left out is as if it was never said.
type TenantGrant struct {
	Weight     float64         `json:"weight,omitempty"`      // 0: 1
	MaxRunning int             `json:"max_running,omitempty"` // 0: no limit
	LabelCaps  job.LabelCaps   `json:"label_caps,omitempty"`
	Ceiling    json.RawMessage `json:"ceiling,omitempty"`
	Reason     string          `json:"reason,omitempty"`
}

// TenantStatus is a tenant and what it has under way.
type TenantStatus struct {
	Tenant     fleet.Tenant `json:"tenant"`
	Queued     int64        `json:"queued"`
	Dispatched int64        `json:"dispatched"`
	Running    int64        `json:"running"`
	AtLeast    bool         `json:"at_least,omitempty"` // the queue is too long to be counted job by job
}

// TenantList is the tenants that who asks may see.
type TenantList struct {
	Tenants []TenantStatus `json:"tenants"`
}
