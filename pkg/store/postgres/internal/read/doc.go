// Package read answers queries about jobs, results, batches and the queue. It changes nothing.
//
// It guards that a tenant sees its own rows only, that each answer is bounded, and that a query reads only its own
// days. Missing objects are job.ErrNotFound, or job.ErrGone if retention may have removed them. A page ends early
// rather than late.
package read
