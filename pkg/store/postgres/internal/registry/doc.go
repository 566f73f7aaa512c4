// Package registry stores named objects: tenants, policies, secrets, workers, environments, sessions, leaders, and the
// actions of operators.
//
// It guards uniqueness and limits: one leader of a role, one process of a worker's name, one version of a policy, a
// number of live sessions of a tenant. An operator's action and its entry are written both or neither. Missing objects
// are job.ErrNotFound, and objects above a limit job.ErrTooMany. No move of a job waits for this package.
package registry
