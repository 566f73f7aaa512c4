package api

import (
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// KeyRequest says what a new key is for.
type KeyRequest struct {
	Name   string       `json:"name"`
	Tenant string       `json:"tenant,omitempty"` // empty: that of who makes it
	Role   string       `json:"role,omitempty"`   // empty: submitter
	Label  string       `json:"label,omitempty"`  // KEY=VALUE: only jobs and batches with it
	Policy string       `json:"policy,omitempty"` // only jobs with this policy
	For    job.Duration `json:"for,omitempty"`    // how long it is good; 0: until it is revoked
	Reason string       `json:"reason,omitempty"` // is kept with the record of it
}

// NewKey is a key that was just made.
type NewKey struct {
	Key   fleet.Key `json:"key"`
	Token string    `json:"token"` // which nobody can read again
}

// KeyList is a page of keys, newest first.
type KeyList struct {
	Keys []fleet.Key `json:"keys"`
	Next job.ID      `json:"next,omitempty"` // give it as before= for the next page
}
