// Package submit accepts jobs: alone, as a batch in one statement, or into an open batch in
// several.
//
// It guards that a request is accepted as a whole or not at all, and once however often it is
// said: by its idempotency key, and by the ids that it brings along. A key that came with
// another body is job.ErrKeyUsed, a batch that is not as its submitter believes is
// job.ErrConflict. What a submitter leaves open when it dies is seen by nobody, and Sweep
// drops it.
package submit
