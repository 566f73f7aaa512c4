package api

import (
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// OperatorRequest is why an operator does something.
type OperatorRequest struct {
	Reason string `json:"reason,omitempty"` // is kept with the record of it
}

// QuarantineRequest keeps a worker from taking jobs for a while.
type QuarantineRequest struct {
	Reason string       `json:"reason,omitempty"`
	For    job.Duration `json:"for"`
}

// ActionList is a page of what operators did, newest first.
type ActionList struct {
	Actions []store.Action `json:"actions"`
	Next    job.ID         `json:"next,omitempty"` // give it as before= for the next page
}

// WorkerStatus is one worker and what it has under way, by the records.
type WorkerStatus struct {
	Worker   store.Worker `json:"worker"`
	Running  int64        `json:"running"`  // jobs
	Sessions int64        `json:"sessions"` // live ones
}

// FleetVersion says which programs a fleet consists of.
type FleetVersion struct {
	Dispatcher string         `json:"dispatcher"` // the one that answers
	Schema     store.Schema   `json:"schema"`
	Workers    map[string]int `json:"workers"` // connected ones, by version
}
