// Package read answers what is asked about jobs, results, batches and the queue. It changes
// nothing.
//
// It guards that a tenant sees its own rows only, that an answer is bounded however much
// there is, and that no more days are read than the question is about. What is not there is
// job.ErrNotFound, or job.ErrGone if it may have been forgotten; the list of a page ends
// early rather than late.
package read
