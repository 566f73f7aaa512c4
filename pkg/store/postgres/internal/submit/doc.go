// Package submit accepts jobs: alone, as a batch in one statement, or into an open batch in several.
//
// It guards that a request is accepted as a whole or not at all, and only once however often it is repeated: by its
// idempotency key, and by its ids. A key that came with another body is job.ErrKeyUsed; a batch in another state than
// its submitter expects is job.ErrConflict. An open batch of a dead submitter is invisible, and Sweep drops it.
package submit
