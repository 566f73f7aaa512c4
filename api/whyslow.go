package api

import (
	"time"

	"github.com/assay-run/assay/pkg/fleet"
)

// WhySlow is the state of everything that can make a fleet slow.
type WhySlow struct {
	At          time.Time             `json:"at"`
	Verdict     []string              `json:"verdict"` // findings, the gravest first; at least one
	Leader      *fleet.Leader         `json:"leader,omitempty"`
	Dispatchers []fleet.Report        `json:"dispatchers"`
	Database    fleet.Database        `json:"database"`
	Queued      int64                 `json:"queued"`
	Dispatched  int64                 `json:"dispatched"`
	Running     int64                 `json:"running"`
	Free        int                   `json:"free"`    // jobs that would start at once
	Tenants     []fleet.TenantQueue   `json:"tenants"` // those whose jobs have waited longest, 20 at most
	Results     int                   `json:"results"` // that wait at workers for a dispatcher to confirm them
	Stopped     []fleet.StoppedWorker `json:"stopped"` // connected workers that take no jobs, 100 at most
	StoppedMore int                   `json:"stopped_more,omitempty"`
	Pauses      []fleet.Pause         `json:"pauses"`
}
