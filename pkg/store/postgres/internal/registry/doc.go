// Package registry keeps what is put under a name and looked up by it: tenants, policies,
// secrets, workers, environments, sessions, who leads, and what operators did.
//
// It guards what there may be one or so many of: a leader of a role, a process of a worker's
// name, a version of a policy, live sessions of a tenant. An operator's action and its entry
// are written both or neither. What is not there is job.ErrNotFound, one too many is
// job.ErrTooMany; of the moves of jobs, none waits for anything here.
package registry
