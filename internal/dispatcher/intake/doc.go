// Package intake accepts jobs: it validates them (package admit), checks the tenant's quota, stores
// them, and sends single jobs to a worker or the queue.
//
// A job returned without an error is accepted and durable. A batch is accepted completely or not at
// all.
package intake
