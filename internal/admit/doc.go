// Package admit decides whether a job may enter: bytes in, accepted jobs out.
//
// It decodes strictly, fills in a batch's defaults, resolves the policy (inline
// or stored by name) under the tenant's ceiling, moves large inputs to the
// object store, and picks the pool. What comes out is complete: a job's stored
// spec names every limit it will run under, and never changes because a stored
// policy or a default did.
//
// Every refusal is a job.FieldError that says which field, in a batch on which
// line, and what to do. Nothing is written to the store here: a refused batch
// has left no trace.
package admit
