package api

import (
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// KeyRequest describes a new key.
type KeyRequest struct {
	Name   string       `json:"name"`
	Tenant string       `json:"tenant,omitempty"` // empty: the caller's tenant
	Role   string       `json:"role,omitempty"`   // empty: submitter
	Label  string       `json:"label,omitempty"`  // KEY=VALUE: limits the key to jobs and batches with this label
	Policy string       `json:"policy,omitempty"` // limits the key to jobs with this policy
	For    job.Duration `json:"for,omitempty"`    // lifetime; 0: until it is revoked
	Reason string       `json:"reason,omitempty"` // is stored with the key
}

// NewKey is the response to a request for a new key.
type NewKey struct {
	Key   fleet.Key `json:"key"`
	Token string    `json:"token"` // only returned here
}

// KeyList is a page of keys, newest first.
type KeyList struct {
	Keys []fleet.Key `json:"keys"`
	Next job.ID      `json:"next,omitempty"` // the before= parameter of the next page
}
